#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "attnkit/stopping.hpp"
#include "attnkit/tensor.hpp"

/// Fenchel-dual inference in batches: each problem has Q queries with evidence z over the same
/// templates t_1 … t_n,
///
///   max_λ  D(λ) = ⟨λ, μ̃ + z⟩ − ‖λ‖²/(2α) − Ψ(Tλ),   p = ∇Ψ(Tλ),   ĥ = Σ p_i t_i,
///
/// where Ψ(ℓ) = log Σ u_i exp ℓ_i for the divergence KL(p‖u), so that p_i ∝ u_i exp⟨t_i,λ⟩, and for
/// the divergence of optimal transport with cost M and regularisation γ
///
///   Ψ(ℓ) = γ Σ_i u_i log Σ_t exp((ℓ_t − M(t,i))/γ) + γ H(u).
///
/// μ̃ is the mean of the templates under p at λ = 0. To first order λ = αz, which for KL is softmax
/// attention: p_i ∝ u_i exp(α⟨t_i,z⟩). Everything is computed in float64. (MATHEMATICS.md §4, FD
/// 3-10)
namespace attn {

/// A query is done when both
///
///   gap <= tolerance · (1 + |primal|)  and  α‖gradient‖ <= 10 · tolerance · min(1, ‖λ‖),
///
/// hold. The second bounds ‖λ − λ*‖, which gives a λ near 0 accurate digits, too. If rounding keeps
/// the gradient from meeting the second (see DualPlan::run), the first is enough. With
/// gradient_tolerance, a query is done when ‖gradient‖ is at most that instead. Evidence below some
/// 1e-14 of the largest template is lost in the rounding of the gradient: λ then stays near αz.
///
/// With square_radius r, the problem for the α that was found is solved to tolerance/100. A query
/// is done when gap <= tolerance · (1 + primal) and the squared distance is at most r (1 +
/// max(tolerance, 1e-9)).
struct DualOptions {
  double tolerance = 1e-10;
  std::optional<double> gradient_tolerance = std::nullopt;
  Index max_iterations = 1000;  ///< Newton steps of a query, >= 1
};

enum class DualStatus : std::uint8_t {
  converged,
  iteration_limit,
  stalled,  ///< no step makes the gradient smaller, and it is still too large
  empty,    ///< no template has a preference
};

/// The result of one query. `primal` and `dual` are computed separately, by (3) and (8). Rounding
/// would swamp the gap in their difference; gap = (α/2)‖gradient‖² is exact for p of the form (10).
/// With square_radius r, the gap is |√r‖λ‖ − ⟨λ, μ+z−ĥ⟩|.
struct DualSummary {
  DualStatus status = DualStatus::empty;
  Index iterations = 0;
  /// How the norm of the gradient fell in the last step, if the query did not converge. Newton's
  /// method is faster near the end, so that fewer iterations than predicted may be enough.
  std::optional<Convergence> convergence = {};
  double gradient_norm = 0;
  double gap = 0;
  double primal = 0;
  double dual = 0;

  /// |(primal − dual) − gap| in units of 2⁻⁵³ of the terms that primal and dual sum.
  double certificate_error = 0;

  // Only with DualPlanOptions::square_radius.
  double alpha = 0;            ///< of the query; 0 where the constraint does not bind
  double square_distance = 0;  ///< ‖μ + z − ĥ‖²
  /// r is within a relative 1e-9 of the squared distance of μ + z to the convex hull of the
  /// templates with u > 0. The multiplier is infinite; `alpha` is one at which ĥ is as near.
  bool at_limit = false;
};

struct DualPlanOptions {
  /// α > 0, finite. For evidence with errors of variance σ² in each component, and a weight η of
  /// the divergence, it is 1/(ησ²): the minimiser of ‖μ + z − ĥ‖²/(2σ²) + η D(p‖u).
  double alpha = 1;

  /// r > 0, finite: in place of α, each query has the p nearest to u whose mean is near the
  /// evidence (FD 5),
  ///
  ///   min_p KL(p‖u)  such that  ‖μ + z − Σ p_i t_i‖² <= r.
  ///
  /// If ‖z‖² <= r, then p = u, λ = 0 and α = 0. Otherwise p, λ and ĥ belong to the α at which the
  /// squared distance is r, found to a relative 1e-12. The results of first and second order use
  /// that α, too. primal is then KL(p‖u), and dual is ⟨λ, μ+z⟩ − √r‖λ‖ − Ψ(Tλ). A cost, and any α
  /// but 1, are refused.
  std::optional<double> square_radius = std::nullopt;

  double gamma = 1;  ///< γ > 0, finite; without a cost any γ but 1 is refused
  DualOptions solver = {};
};

/// The shapes that a plan is made for.
struct DualShapes {
  std::optional<Shape> templates;   ///< t (…, n, d)
  std::optional<Shape> evidence;    ///< z (…, Q, d)
  std::optional<Shape> preference;  ///< u: broadcasts to (…, Q, n); its last axis is n
  std::optional<Shape> cost;        ///< M (…, n, n)
};

/// The arrays of one run, float or double. A view without data and without axes is absent.
template <class T>
struct DualOperands {
  TensorView<const T> templates;  ///< finite
  TensorView<const T> evidence;   ///< finite
  /// Finite and ≥ 0; each row is divided by its sum over n. Absent: the same for all templates. A
  /// query whose preferences are all 0 has no problem to solve: it gets DualStatus::empty, and
  /// zeros for results.
  TensorView<const T> preference;
  /// Numbers ≥ 0, row t, column source i; +inf forbids. Absent: the divergence is KL.
  TensorView<const T> cost;
};
using DualInputs = DualOperands<double>;

/// The shapes of arrays.
template <class T>
DualShapes shapes_of(const DualOperands<T>& inputs);

/// Where results go. A result whose view has no data is not returned. `leading` stands for the
/// leading axes of the results.
struct DualOutputs {
  TensorView<double> lambda = {};         ///< λ (leading, Q, d)
  TensorView<double> h = {};              ///< ĥ (leading, Q, d)
  TensorView<double> p = {};              ///< p (leading, Q, n)
  TensorView<double> first_order_h = {};  ///< ĥ at λ = αz (leading, Q, d)
  /// p at λ = αz (leading, Q, n), which for KL is softmax attention.
  TensorView<double> first_order_p = {};
  /// ĥ at λ = α(I + αΣ)⁻¹z (leading, Q, d); I/α + Σ is minus the second derivative of D at λ = 0.
  /// For KL Σ is the covariance of the templates under u.
  TensorView<double> second_order_h = {};
};

/// Fenchel-dual inference, computed in float64. Different plans may run at the same time in
/// different threads; one plan must not run twice at a time.
class DualPlan {
 public:
  /// Throws Error(input) that names operands whose shapes do not fit, and Error(usage) for options
  /// out of range, and Error(memory) if the plan does not fit into memory, as `run` does.
  DualPlan(const DualShapes& shapes, const DualPlanOptions& options, const Context& context);

  ~DualPlan();
  DualPlan(DualPlan&&) noexcept;
  DualPlan& operator=(DualPlan&&) noexcept;

  /// The shapes of the results.
  const Shape& leading() const;
  Shape lambda_shape() const;  ///< leading, Q, d
  Shape p_shape() const;       ///< leading, Q, n

  /// The most bytes of working memory that a run takes. The first run allocates it and later runs
  /// reuse it; inputs, outputs and summaries are not included.
  std::int64_t workspace_bytes() const;

  /// Solves all queries and returns their summaries in row-major order of (leading, Q). ‖λ − λ*‖ ≤
  /// α‖gradient‖, in which rounding is about 2⁻⁵² (‖z‖ + max‖t‖ (1 + max‖t‖‖λ‖)) with t measured
  /// from the mean of the templates. Throws Error(input) for arrays whose shapes are not the plan's
  /// and for numbers that are not allowed, Error(numerical) if αz, or a logit, is beyond the range
  /// of float64, or if no p is within the radius. After an error the outputs are unspecified and
  /// the plan can run again.
  std::vector<DualSummary> run(const DualOperands<double>& inputs, const DualOutputs& outputs);

  /// The same for arrays of float, which are first copied as double: 8 further bytes for each
  /// number.
  std::vector<DualSummary> run(const DualOperands<float>& inputs, const DualOutputs& outputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
