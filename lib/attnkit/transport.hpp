#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/feasibility.hpp"
#include "attnkit/stopping.hpp"
#include "attnkit/tensor.hpp"

/// Entropic optimal transport by Sinkhorn's iterations (Cuturi 2013), in batches. For scores s and
/// marginals a and b:
///
///   primal  min_π  −⟨π, s⟩ + Σ_ij π_ij (log π_ij − 1),   π ≥ 0, Σ_j π_ij = a_i, Σ_i π_ij = b_j,
///   dual    max_{f,g}  −⟨a, f⟩ − ⟨b, g⟩ − Σ_ij exp((s_ij − g_j) − f_i),
///
/// and π_ij = exp((s_ij − g_j) − f_i) at the optimum. With s = −C/ε, ε times either value is that
/// of the transport with cost C: min ⟨π, C⟩ + ε Σ π (log π − 1). A TransportPlan is made once for
/// some shapes and options and then runs many times:
///
///   attn::TransportInputs<double> in;  // two point clouds, cost |x_i − y_j|²
///   in.x = {x, {1000, 3}};  in.y = {y, {2000, 3}};
///   attn::TransportPlan<double> plan(attn::shapes_of(in), {.epsilon = 0.1}, 4);
///   const auto summary = plan.run(in, {.row_potential = {f, {1000}}});
///
/// Arrays are dense and row-major, in the caller's memory. Leading axes are batch axes and
/// broadcast: they are aligned at the last one, and an axis of length 1, or an absent one, is
/// repeated.
namespace attn {

/// The penalties ρ_a and ρ_b > 0 of unbalanced transport (Chizat, Peyré, Schmitzer and Vialard
/// 2018), whose plan π may have other row sums r and column sums c than a and b, with other totals:
///
///   primal  min_π  −⟨π, s⟩ + Σ π (log π − 1) + ρ_a KL(r ‖ a) + ρ_b KL(c ‖ b),   π ≥ 0,
///   dual    max_{f,g}  −ρ_a Σ a (exp(f/ρ_a) − 1) − ρ_b Σ b (exp(g/ρ_b) − 1)
///                      − Σ_ij exp((s_ij − g_j) − f_i),
///
/// KL(x ‖ y) = Σ x log(x/y) − x + y. At the optimum r_i = a_i exp(f_i/ρ_a) and c_j = b_j
/// exp(g_j/ρ_b), and the value has the derivatives ρ_a (1 − exp(f_i/ρ_a)) by a_i, and so on by b_j.
struct MarginalPenalties {
  double row = 0;
  double col = 0;
};

/// The error is the L1 error of the marginals, Σ_i |r_i − a_i| + Σ_j |c_j − b_j|, of the plan as it
/// is shown; with penalties the same distance from a_i exp(f_i/ρ_a) and b_j exp(g_j/ρ_b). The usual
/// tolerance is 1e-10 times Σ a (with penalties, the larger of Σ a and Σ b), or 1e-10 if that is
/// above 1. In float32 it is 1e-6 times Σ a, because a plan in that format cannot have better sums.
struct SinkhornOptions : Stopping {
  /// ω in [1, 2): over-relaxed iterations. ω returns to 1 when the error stops falling, so that the
  /// solution is that of plain iterations.
  double relaxation = 1;

  /// Solves roughly with a larger ε first and divides it by four until it is the given one: each
  /// solution starts the next. Has no effect with an exact number of iterations; TransportPlan then
  /// throws Error(usage).
  bool anneals = false;

  /// Bytes in which exponentials of scores may be kept from one iteration to the next, at most all
  /// m × n of them. Exponentials without room are computed again in every iteration, which takes
  /// longer and yields the same bits.
  std::int64_t kept_bytes = 0;

  /// Whether to record the error of every iteration.
  bool keeps_errors = true;
};

struct SinkhornSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 0;
  std::optional<Convergence> convergence = {};  ///< if it did not converge

  /// For the plan exp((s − g) − f) as it is shown, rounding included.
  double row_error = 0;
  double col_error = 0;

  double mass = 0;   ///< Σ π
  double score = 0;  ///< ⟨π, s⟩
  double primal = 0;  ///< −⟨π, s⟩ + Σ π (log π − 1) of this π, which meets a and b up to the errors
  /// For these f and g: never above the optimum, except by the rounding of Σ π, about 1e-7 max(1,
  /// S) of it in float32 (2e-16 in float64), S = max |s_ij|.
  double dual = 0;

  /// ≥ 0; the optimum is at most dual + gap. Computed without a subtraction: for any plan π̂ that
  /// meets a and b, its primal minus the dual is KL(π̂ ‖ π), and rounding π to such a plan
  /// (Altschuler, Weed and Rigollet 2017, algorithm 2) costs at most
  ///
  ///   2 Σ_i r_i (1 − x_i)² + 2 Σ_j c_j (1 − y_j)² + E max(0, F + G + S),
  ///
  /// x_i = min(1, a_i/r_i), y_j = min(1, b_j/c_j), E = Σ_i (r_i − a_i)⁺ + Σ_j (b_j − c_j)⁺,
  /// F = max_i (f_i + ½ log a_i), G = max_j (g_j + ½ log b_j), S = max |s_ij|. If some pair of an
  /// open row and column is forbidden (the rounding needs all), or S is unknown, the missing mass
  /// is sent along the heaviest spanning trees of the plan instead, with a rounding of 1e-12, 1e-6
  /// in float32. NaN if the plan is too far from its marginals for that, if an exact number of
  /// iterations was requested, or if Σ a ≠ Σ b.
  ///
  /// With penalties, this π is a plan of the problem, and the gap is its primal minus the dual, as
  ///
  ///   ρ_a Σ_i KL(r_i ‖ a_i exp(f_i/ρ_a)) + ρ_b Σ_j KL(c_j ‖ b_j exp(g_j/ρ_b)).
  double gap = std::numeric_limits<double>::quiet_NaN();
};

/// Exact transport: Kantorovich's problem min ⟨P, C⟩ over plans P ≥ 0 with row sums a and column
/// sums b, as the limit of annealed potentials (Kosowsky and Yuille 1994, Schmitzer 2019).
struct ExactOptions {
  /// Stops once upper − lower ≤ max(gap · |upper|, 1e-14 max |C| Σ a), in float32 1e-6 in place of
  /// 1e-14, of bounds on the optimum that always hold. The second is what rounding of costs and
  /// sums may amount to: an optimum near 0 is found to that. Where neither is reached, it is at
  /// about 1e-8 of the largest cost, in float32 1e-5 of it, that the iterations end. In (0, 1).
  double gap = 1e-4;
  Index iterations = 100000;    ///< at most, at all ε together; >= 1
  double relaxation = 1.8;      ///< in [1, 2), see SinkhornOptions
  std::int64_t kept_bytes = 0;  ///< see SinkhornOptions
};

struct TransportOptions {
  /// ε > 0, finite. For a cost and for points; ready-made scores are taken as they are, and with
  /// them any ε but 1 is refused.
  double epsilon = 1;

  /// Transport without regularisation: ε stays 1, `solver` has its defaults, and all pairs of lines
  /// with a marginal > 0 are allowed. The plan then has the sums a and b up to rounding. The
  /// potentials are those of the lower bound: C_ij + f_i + g_j ≥ 0 for all pairs, in units of the
  /// cost, near 0 where the plan has mass.
  std::optional<ExactOptions> exact = {};

  /// Sinkhorn's divergence (Genevay, Peyré and Cuturi 2018; Feydy et al. 2019) in place of
  /// transport, of points, or of a and b on a common support with a square, symmetric cost,
  ///
  ///   S(a, b) = OT(a, b) − ½ OT(a, a) − ½ OT(b, b),   OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ):
  ///
  /// 0 for a = b, and never negative for costs such as |x − y|². Without scores, mask and
  /// penalties. There are no plan and no sums; potentials and figures are those of transport
  /// between a and b, with those of a and b with themselves in `row_self_potential` and
  /// `col_self_potential`, the status is the worst and `iterations` the most of the three problems,
  /// and the gradients are those of S.
  bool divergence = false;

  /// Unbalanced transport, with penalties > 0 and finite in units of the cost, and ρ_a ρ_b/(ρ_a +
  /// ρ_b) of at most 2³⁰ ε: the rounding of potentials of that size is 1e-7 of a plan, also in
  /// float32, as potentials are float64; and larger ones would not converge. There is a solution
  /// whatever the marginals and the mask; b is not rescaled. If Σ a ≠ Σ b, potentials grow with the
  /// penalties: the usual tolerance is then at least their rounding, 2⁻⁵¹ ρ_a ρ_b/(ρ_a + ρ_b)
  /// |log(Σ a/Σ b)|/ε times the larger sum, but at most 1e-6 times that.
  std::optional<MarginalPenalties> penalties = {};

  SinkhornOptions solver = {};

  /// The rounding unit of the type that the marginals were rounded to, 2⁻²³ for float32: sums of a
  /// and b that differ by rounding count as equal.
  double marginal_rounding = std::numeric_limits<double>::epsilon();
};

/// The shapes that a plan is made for. Exactly one of `cost`, `scores`, and `x` with `y` is
/// present.
struct TransportShapes {
  std::optional<Shape> cost;                          ///< (…, m, n)
  std::optional<Shape> scores;                        ///< (…, m, n)
  std::optional<Shape> x;                             ///< (…, m, d)
  std::optional<Shape> y;                             ///< (…, n, d)
  std::optional<Shape> mask;                          ///< broadcasts to (…, m, n)
  std::optional<Shape> row_marginal;                  ///< (…, m)
  std::optional<Shape> col_marginal;                  ///< (…, n)
  std::optional<Shape> grad_plan = {};                ///< broadcasts to (…, m, n)
  std::optional<Shape> grad_row_potential = {};       ///< (…, m)
  std::optional<Shape> grad_col_potential = {};       ///< (…, n)
  std::optional<Shape> grad_row_self_potential = {};  ///< (…, m)
  std::optional<Shape> grad_col_self_potential = {};  ///< (…, n)
};

/// The arrays of one run. A view without data and without axes is absent.
template <class T>
struct TransportInputs {
  TensorView<const T> cost;    ///< C (…, m, n): finite, or +inf, which forbids the pair
  TensorView<const T> scores;  ///< s (…, m, n): finite, or −inf, which forbids the pair
  /// Points (…, m, d) and (…, n, d), finite, whose cost is the squared distance |x_i − y_j|². No
  /// m × n array is made.
  TensorView<const T> x;
  TensorView<const T> y;
  TensorView<const std::uint8_t> mask;  ///< broadcasts to (…, m, n): 0 forbids the pair
  /// a (…, m) and b (…, n): finite and ≥ 0, where 0 closes a line (row or column). An absent
  /// marginal is uniform over the lines with an allowed pair. With a cost or points, it has the sum
  /// of the other marginal, or 1 if both are absent. With scores, an absent a is 1 in each line,
  /// and an absent b has the sum of a.
  TensorView<const double> row_marginal;
  TensorView<const double> col_marginal;

  /// Derivatives of a number L by the results, for the gradients of L through the solution: ∂L/∂π,
  /// which broadcasts to (…, m, n), ∂L/∂f (…, m) and ∂L/∂g (…, n); finite, absent ones are 0.
  /// Not of exact transport, and of a divergence without ∂L/∂π. A constant that f gains and g loses
  /// says nothing: L is that of potentials with Σ f = Σ g over the lines with mass, unless there
  /// are penalties.
  TensorView<const T> grad_plan = {};
  TensorView<const double> grad_row_potential = {};
  TensorView<const double> grad_col_potential = {};
  /// Of a divergence: ∂L/∂f of a with itself (…, m), and ∂L/∂g of b with itself (…, n).
  TensorView<const double> grad_row_self_potential = {};
  TensorView<const double> grad_col_self_potential = {};
};

/// The derivatives of a number L by what a solution was made of, through the solution, by the
/// implicit function theorem (MATHEMATICS.md §2).
template <class T>
struct SolutionGradients {
  /// By the cost (in units of 1/cost), or by the scores (leading, m, n); 0 where a pair is
  /// forbidden. O(m n) memory. Of a divergence only with a cost, for changes that keep it
  /// symmetric.
  TensorView<T> matrix = {};
  /// By a (leading, m) and b (leading, n). Exact marginals must keep Σ a = Σ b: only changes along
  /// that mean anything. At a marginal of 0 that of an increase: finite for exact marginals unless
  /// ∂L/∂f ≠ 0, as f is −log a, and with penalties infinite, as the line's sum grows like a power
  /// of a below 1. NaN for a line without a pair that is allowed and open.
  TensorView<double> row_marginal = {};
  TensorView<double> col_marginal = {};
  TensorView<T> x = {};  ///< (leading, m, d); only of points
  TensorView<T> y = {};  ///< (leading, n, d); only of points
};

/// Whether these are the derivatives: they hold at a solution, and solve linear equations.
struct SolutionGradientFigures {
  /// done if none were requested; not_converged if the residual is too large, or if plan_error > 0.
  SolveStatus status = SolveStatus::done;
  /// How far the sums of the plan are off, L1, if it is no solution: it did not converge, or a
  /// fixed number of iterations left it outside of the usual tolerance; else 0.
  double plan_error = 0;
  Index iterations = 0;  ///< of conjugate gradients, one pass over the scores each
  /// Of the equations' right-hand side, relatively, left over: at most 1e-10, in float32 1e-6, if
  /// it converged.
  double residual = 0;
};

/// The shapes of arrays.
template <class T>
TransportShapes shapes_of(const TransportInputs<T>& inputs);

/// Where results go. A result whose view has no data is not returned. `leading` stands for the
/// leading axes of the results. All results of an infeasible problem are NaN.
template <class T>
struct TransportOutputs {
  TensorView<double> row_potential = {};       ///< f (leading, m); −inf for a closed line
  TensorView<double> col_potential = {};       ///< g (leading, n)
  TensorView<T> plan = {};                     ///< π (leading, m, n): all π_ij, O(m n) memory
  TensorView<double> row_sum = {};             ///< Σ_j π_ij (leading, m)
  TensorView<double> col_sum = {};             ///< Σ_i π_ij (leading, n)
  TensorView<double> row_self_potential = {};  ///< of a divergence: f of a with itself (leading, m)
  TensorView<double> col_self_potential = {};  ///< g of b with itself (leading, n)

  /// Derivatives of TransportProblem::dual at f and g, each problem's own; at the solution those of
  /// the optimum. That by the cost is the plan (by scores, its negative). By a and b, in units of
  /// the cost over mass: −ε f_i, or with penalties ρ_a (1 − exp(ε f_i/ρ_a)); at a marginal of 0
  /// −inf, but at a line that no mass can reach +inf, with penalties ρ_a. Exact marginals must keep
  /// Σ a = Σ b: only changes along that mean anything.
  TensorView<double> row_marginal_gradient = {};  ///< by a (leading, m)
  TensorView<double> col_marginal_gradient = {};  ///< by b (leading, n)
  TensorView<T> x_gradient = {};  ///< 2 Σ_j π_ij (x_i − y_j) (leading, m, d); only of points
  TensorView<T> y_gradient = {};  ///< (leading, n, d); only of points

  SolutionGradients<T> through_solution = {};  ///< of the L of TransportInputs::grad_plan and so on
};

/// The outcome of one problem. Its numbers are NaN if it is infeasible. `value`, `primal`, `dual`
/// and `gap` are in units of the cost if the problem has a cost or points.
struct TransportProblem {
  SolveStatus status = SolveStatus::done;
  Index iterations = 0;
  std::optional<Convergence> convergence = {};  ///< if it did not converge
  std::optional<double> tolerance;  ///< the one used; none with a fixed number of iterations
  double row_error = 0;             ///< Σ_i |Σ_j π_ij − a_i|, see SinkhornOptions
  double col_error = 0;             ///< Σ_j |Σ_i π_ij − b_j|
  double mass = 0;                  ///< Σ π
  double value = 0;                 ///< ⟨π, C⟩; with scores, ⟨π, s⟩
  double primal = 0;  ///< primal, dual and gap: see SinkhornSummary; exact: ⟨π, C⟩, the lower bound
                      ///< and their difference
  double dual = 0;
  double gap = 0;
  /// exact, not converged: ε is the least that rounding allows, so that iterations would not help.
  bool limited_by_rounding = false;

  /// Of TransportOptions::divergence, in units of the cost; else NaN.
  struct Divergence {
    double value = std::numeric_limits<double>::quiet_NaN();  ///< S
    /// The same combination of the ⟨P, C⟩.
    double sharp = std::numeric_limits<double>::quiet_NaN();
    /// S lies between these; NaN if the gap of one of the three problems is.
    double lower = std::numeric_limits<double>::quiet_NaN();
    double upper = std::numeric_limits<double>::quiet_NaN();
  };
  Divergence divergence;

  /// Feasibility of the marginals over the allowed pairs. Not examined with penalties; with a fixed
  /// number of iterations, only whether the sums of a divergence are equal.
  Feasibility feasibility;
  /// |Σ a − Σ b| if it is more than rounding but at most half of the requested tolerance: b was
  /// scaled to the sum of a, and the difference counts towards the tolerance. Else 0.
  double rescaled = 0;
  std::vector<double> errors;  ///< by iteration, if SinkhornOptions::keeps_errors
  SolutionGradientFigures through_solution = {};
};

struct TransportSummary {
  std::vector<TransportProblem> problems;  ///< in row-major order of the leading axes

  /// The worst status of all problems: infeasible, else not_converged, else another.
  SolveStatus status() const;
};

/// Optimal transport of float or double arrays. Different plans may run at the same time in
/// different threads; one plan must not run twice at a time.
template <class T>
class TransportPlan {
 public:
  /// threads ≥ 1, else Error(usage). They share the problems, or work together on one problem at a
  /// time if there are fewer problems than threads. No result depends on their number. Throws
  /// Error(input) that names operands whose shapes do not fit, and Error(usage) for options out of
  /// range, and Error(memory) if the plan does not fit into memory, as `run` does.
  TransportPlan(const TransportShapes& shapes, const TransportOptions& options, int threads);

  ~TransportPlan();
  TransportPlan(TransportPlan&&) noexcept;
  TransportPlan& operator=(TransportPlan&&) noexcept;

  /// The shapes of the results.
  const Shape& leading() const;
  Shape row_shape() const;   ///< leading, m
  Shape col_shape() const;   ///< leading, n
  Shape plan_shape() const;  ///< leading, m, n

  /// The most bytes of working memory that a run takes. The first run allocates it and later runs
  /// reuse it; inputs, outputs and the summary are not included.
  /// O(m + n) for points unless exponentials are kept (SinkhornOptions::kept_bytes).
  std::int64_t workspace_bytes() const;

  /// Solves every problem. Throws Error(input) for arrays whose shapes are not the plan's and for
  /// numbers that are not allowed (exact: a forbidden pair; a divergence: a cost that is not
  /// symmetric), Error(usage) for outputs that the problem does not have, and Error(numerical) for
  /// scores or marginals beyond the range of T. Equations of gradients that do not converge are no
  /// error: see SolutionGradientFigures.
  /// Infeasible marginals are no error: they yield SolveStatus::infeasible. After an error the
  /// outputs are unspecified and the plan can run again.
  TransportSummary run(const TransportInputs<T>& inputs, const TransportOutputs<T>& outputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
