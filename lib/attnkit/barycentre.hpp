#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/transport.hpp"

/// Entropic barycentres of histograms (Benamou, Carlier, Cuturi, Nenna and Peyré 2015), in batches.
/// The barycentre of histograms a_k with weights w_k, Σ w_k = 1, is the p that minimises
///
///   Σ_k w_k OT(p, a_k),   OT(p, a) = min_P ⟨P, C⟩ + ε Σ P (log P − 1),   P ≥ 0, Σ_j P_ij = p_i,
///                                                                      Σ_i P_ij = a_j,
///
/// with a cost C between the bins of p and the bins that all a_k share. Scores s stand for −C/ε
/// with ε = 1. The plans are P_k = exp((s − g_k) − f_k), with Σ_k w_k f_k = 0.
///
///   attn::BarycentreInputs<double> in;
///   in.cost = {cost, {100, 100}};  in.histograms = {a, {3, 100}};
///   attn::BarycentrePlan<double> plan(attn::shapes_of(in), {.epsilon = 0.01}, 4);
///   plan.run(in, {.barycentre = {p, {100}}});
///
/// Arrays, batch axes and threads are as in attnkit/transport.hpp.
namespace attn {

/// The error of `stopping` is Σ_k w_k (‖P_k 1 − p‖₁ + ‖P_kᵀ 1 − a_k‖₁), and the default tolerance
/// is the one of SinkhornOptions.
struct BarycentreOptions {
  Stopping stopping = {};
  bool keeps_errors = true;  ///< whether to record the error of every iteration
  SinkhornOptions::Tuning tuning = {};
};

struct BarycentrePlanOptions {
  double epsilon = 1;  ///< > 0, finite; with scores only 1
  BarycentreOptions solver = {};
  /// The rounding unit of the type that the histograms were rounded to, 2⁻²³ for float32: sums that
  /// differ by rounding count as equal.
  double histogram_rounding = std::numeric_limits<double>::epsilon();
};

/// The shapes that a plan is made for. Exactly one of `cost`, `scores`, and `x` with `y` is
/// present; `histograms` always is.
struct BarycentreShapes {
  std::optional<Shape> cost;                     ///< (…, m, n)
  std::optional<Shape> scores;                   ///< (…, m, n)
  std::optional<Shape> x;                        ///< (…, m, d)
  std::optional<Shape> y;                        ///< (…, n, d)
  std::optional<Shape> histograms;               ///< (…, K, n)
  std::optional<Shape> weights;                  ///< (…, K)
  std::optional<Shape> grad_barycentre;          ///< (…, m)
  std::optional<Shape> grad_plan = {};           ///< broadcasts to (…, m, n)
  std::optional<Shape> grad_row_potential = {};  ///< (…, K, m)
  std::optional<Shape> grad_col_potential = {};  ///< (…, K, n)
};

/// The arrays of one run. A view without data and without axes is absent.
template <class T>
struct BarycentreInputs {
  TensorView<const T> cost;    ///< C (…, m, n), finite
  TensorView<const T> scores;  ///< s (…, m, n), finite
  TensorView<const T> x;  ///< points (…, m, d) and (…, n, d), whose cost is |x_i − y_j|²
  TensorView<const T> y;
  TensorView<const double> histograms;  ///< a (…, K, n), finite and ≥ 0, of equal sums
  /// (…, K), finite and ≥ 0, not all 0: divided by their sum. Absent: all the same.
  TensorView<const double> weights;
  /// Derivatives of a number L by the results, for BarycentreOutputs::through_barycentre: ∂L/∂p (…,
  /// m), by the mean plan Σ_k w_k P_k, which broadcasts to (…, m, n), and ∂L/∂f (…, K, m) and ∂L/∂g
  /// (…, K, n). Finite; absent ones are 0. ∂L/∂f and ∂L/∂g are 0 for a weight of 0. Potentials are
  /// unique up to constants t_k, Σ_k w_k t_k = 0, that f_k gains and g_k loses; L is taken at the
  /// potentials whose Σ_i f_ki − Σ_j g_kj over the lines with mass is the same for all k.
  TensorView<const double> grad_barycentre;
  TensorView<const T> grad_plan = {};
  TensorView<const double> grad_row_potential = {};
  TensorView<const double> grad_col_potential = {};
};

template <class T>
BarycentreShapes shapes_of(const BarycentreInputs<T>& inputs);

/// Derivatives of a number by the inputs of a barycentre.
template <class T>
struct BarycentreGradients {
  TensorView<T> matrix = {};  ///< by the cost, or by the scores (leading, m, n). O(m n) memory
  /// (leading, K, n). Histograms must keep equal sums: only changes that keep them have a meaning.
  TensorView<double> histograms = {};
  TensorView<double> weights = {};  ///< by the weights as given (leading, K)
  TensorView<T> x = {};             ///< (leading, m, d); only of points
  TensorView<T> y = {};             ///< (leading, n, d); only of points
};

/// Where results go. A result whose view has no data is not returned. All results of an infeasible
/// problem are NaN.
template <class T>
struct BarycentreOutputs {
  TensorView<double> barycentre = {};     ///< p (leading, m), with the sum of a histogram
  TensorView<double> row_potential = {};  ///< f (leading, K, m)
  TensorView<double> col_potential = {};  ///< g (leading, K, n); −inf where a is 0

  /// Gradients of the optimum:
  ///
  /// - by the cost: Σ_k w_k P_k;
  /// - by a: −ε w_k g_k, and −inf where a is 0;
  /// - by the weights: OT(p, a_k) less the mean of all, divided by the weights' sum.
  BarycentreGradients<T> optimum = {};

  /// Gradients of L, a number of all problems, through the barycentres, by the implicit function
  /// theorem (MATHEMATICS.md §2). Each has the shape of its input: problems that share an input are
  /// summed; NaN if one of them is infeasible. For absent weights, and for scores of points, each
  /// problem has a derivative.
  /// Where a mass or a weight is 0, the derivative is one-sided, for an increase. It is infinite at
  /// a mass of 0 with ∂L/∂g ≠ 0, as g is −log a, and NaN if no histogram has mass.
  BarycentreGradients<T> through_barycentre = {};
};

/// The outcome of one problem. A problem is infeasible if its histograms have different sums; its
/// numbers are then NaN. `value`, `primal`, `dual` and `gap` are in units of the cost if the
/// problem has a cost or points.
struct BarycentreResult {
  SolveStatus status = SolveStatus::done;
  Index iterations = 0;
  std::optional<Convergence> convergence = {};  ///< if it did not converge
  std::optional<double> tolerance;  ///< the one used; none with a fixed number of iterations
  double row_error = 0;             ///< Σ_k w_k ‖P_k 1 − p‖₁
  double col_error = 0;             ///< Σ_k w_k ‖P_kᵀ 1 − a_k‖₁
  double value = 0;                 ///< Σ_k w_k ⟨P_k, C⟩; with scores, Σ_k w_k ⟨P_k, s⟩
  double primal = 0;           ///< Σ_k w_k times the primal and dual values of SinkhornSummary
  double dual = 0;             ///< a lower bound of the optimum, up to rounding
  double gap = 0;              ///< the optimum is at most dual + gap
  std::vector<double> errors;  ///< by iteration, if BarycentreOptions::keeps_errors
  /// For through_barycentre. An iteration takes two passes over the scores for each histogram.
  SolutionGradientFigures through_barycentre = {};
};

struct BarycentreSummary {
  std::vector<BarycentreResult> problems;  ///< in row-major order of the leading axes

  /// The worst status of all problems, as TransportSummary::status.
  SolveStatus status() const;
};

/// Barycentres of float or double arrays, used like TransportPlan.
template <class T>
class BarycentrePlan {
 public:
  /// Arguments as for TransportPlan. Throws Error(input) that names operands whose shapes do not
  /// fit, Error(usage) for options out of range, and Error(memory) if the plan does not fit into
  /// memory.
  BarycentrePlan(const BarycentreShapes& shapes, const BarycentrePlanOptions& options,
                 const Context& context);

  ~BarycentrePlan();
  BarycentrePlan(BarycentrePlan&&) noexcept;
  BarycentrePlan& operator=(BarycentrePlan&&) noexcept;

  const Shape& leading() const;
  Shape barycentre_shape() const;  ///< leading, m
  Shape histogram_shape() const;   ///< leading, K, n

  /// The most bytes of working memory that a run takes, as TransportPlan::workspace_bytes.
  std::int64_t workspace_bytes() const;

  /// Solves every problem. Throws as TransportPlan::run; a pair of infinite cost is an
  /// Error(input).
  BarycentreSummary run(const BarycentreInputs<T>& inputs, const BarycentreOutputs<T>& outputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
