#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/context.hpp"
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
/// and π_ij = exp((s_ij − g_j) − f_i) at the optimum. With s = −C/ε, ε times either value is the
/// value of transport with cost C, min ⟨π, C⟩ + ε Σ π (log π − 1). A TransportPlan is made once for
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
/// 2018), whose plan π may have row sums r and column sums c other than a and b, with other totals:
///
///   primal  min_π  −⟨π, s⟩ + Σ π (log π − 1) + ρ_a KL(r ‖ a) + ρ_b KL(c ‖ b),   π ≥ 0,
///   dual    max_{f,g}  −ρ_a Σ a (exp(f/ρ_a) − 1) − ρ_b Σ b (exp(g/ρ_b) − 1)
///                      − Σ_ij exp((s_ij − g_j) − f_i),
///
/// KL(x ‖ y) = Σ x log(x/y) − x + y. At the optimum r_i = a_i exp(f_i/ρ_a) and c_j = b_j
/// exp(g_j/ρ_b), and the derivative of the value by a_i is ρ_a (1 − exp(f_i/ρ_a)), by b_j
/// accordingly. One penalty may be infinite: r = a is then exact, the dual has −⟨a, f⟩ in place of
/// its term, and the derivative by a_i is −f_i.
struct MarginalPenalties {
  double row = 0;
  double col = 0;
};

/// The error of `stopping` is the L1 error of the marginals, Σ_i |r_i − a_i| + Σ_j |c_j − b_j|, of
/// the plan as returned; with penalties, the same distance from a_i exp(f_i/ρ_a) and b_j
/// exp(g_j/ρ_b). The usual tolerance is 1e-10 times Σ a (with penalties, the larger of Σ a and Σ
/// b), or 1e-10 if that is above 1. In float32 it is 1e-6 times Σ a, because a plan in that format
/// cannot have better sums.
struct SinkhornOptions {
  Stopping stopping = {};

  /// ω in [1, 2): over-relaxed iterations. ω returns to 1 when the error stops falling, so that the
  /// solution is that of plain iterations.
  double relaxation = 1;

  /// Solves roughly with a larger ε first and divides ε by four until the given one is reached;
  /// each solution starts the next. Has no effect with an exact number of iterations; TransportPlan
  /// then throws Error(usage).
  bool anneals = false;

  /// Whether to record the error of every iteration.
  bool keeps_errors = true;

  /// What changes time and memory, and no bit.
  struct Tuning {
    /// Bytes in which exponentials of scores may be kept from one iteration to the next, at most
    /// all m × n of them. Exponentials without room are computed again in every iteration, which
    /// takes longer.
    std::int64_t kept_bytes = 0;
  };
  Tuning tuning = {};
};

struct SinkhornSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 0;
  std::optional<Convergence> convergence = {};  ///< if it did not converge

  /// L1 errors of the plan exp((s − g) − f) as returned, rounding included.
  double row_error = 0;
  double col_error = 0;

  double mass = 0;   ///< Σ π
  double score = 0;  ///< ⟨π, s⟩
  /// −⟨π, s⟩ + Σ π (log π − 1) of this π, which meets a and b up to the errors. With penalties the
  /// primal value of a plan of the problem, at least the optimum: dual + gap.
  double primal = 0;
  /// The dual value at these f and g. It exceeds the optimum at most by the rounding of Σ π, a
  /// relative 1e-7 max(1, S) in float32 (2e-16 max(1, S) in float64), S = max |s_ij|.
  double dual = 0;

  /// ≥ 0; the optimum is at most dual + gap. Computed without a subtraction: a plan π̂ that meets a
  /// and b has a primal of the dual plus KL(π̂ ‖ π), and rounding π to such a plan (Altschuler,
  /// Weed and Rigollet 2017, algorithm 2) costs at most
  ///
  ///   2 Σ_i r_i (1 − x_i)² + 2 Σ_j c_j (1 − y_j)² + E max(0, F + G + S),
  ///
  /// x_i = min(1, a_i/r_i), y_j = min(1, b_j/c_j), E = Σ_i (r_i − a_i)⁺ + Σ_j (b_j − c_j)⁺, F =
  /// max_i (f_i + ½ log a_i), G = max_j (g_j + ½ log b_j), S = max |s_ij|. That rounding needs S
  /// and all pairs of open rows and columns. If S is unknown or such a pair is forbidden, the
  /// missing mass is sent along the heaviest spanning trees of the plan instead, with a rounding of
  /// 1e-12 (float32: 1e-6). NaN if the plan is too far from its marginals for that, if an exact
  /// number of iterations was requested, or if Σ a ≠ Σ b.
  ///
  /// With penalties, π itself is a plan of the problem, and the gap is its primal minus the dual:
  ///
  ///   ρ_a Σ_i KL(r_i ‖ a_i exp(f_i/ρ_a)) + ρ_b Σ_j KL(c_j ‖ b_j exp(g_j/ρ_b)).
  ///
  /// If the rows are exact, the plan of the problem is π with its rows scaled by a_i/r_i. The first
  /// term is then Σ_i KL(a_i ‖ r_i), and c are the sums of the scaled plan; accordingly for
  /// columns. NaN if a row cannot be scaled.
  double gap = std::numeric_limits<double>::quiet_NaN();
};

/// How exact transport is computed.
enum class ExactMethod {
  automatic,  ///< the simplex if ExactOptions::simplex_bytes allow it, else annealing
  simplex,    ///< the primal network simplex, on a matrix of all costs; forbidden pairs are no arcs
  annealing,  ///< the limit of annealed potentials in O(m + n) memory; no pair may be forbidden
};

/// Exact transport: Kantorovich's problem min ⟨P, C⟩ over plans P ≥ 0 with row sums a and column
/// sums b. Both methods certify their result by bounds on the optimum that always hold: upper is
/// ⟨P, C⟩ of the plan, lower is the dual value of the potentials. The result is converged once
/// upper − lower ≤ max(gap · |upper|, 1e-14 max |C| Σ a), with 1e-6 in place of 1e-14 in float32.
/// The second term is what rounding of costs and sums may amount to; it decides for an optimum near
/// 0.
///
/// - The simplex (Ahuja, Magnanti and Orlin 1993, chapter 11) ends at an optimal basis, with a gap
///   of the size of rounding. Masses are whole multiples of 2⁻⁶¹ of their sum or so. Costs are
///   rounded to 2⁻⁴⁶ of the largest potential while it runs; the bounds are those of the given
///   costs.
/// - Annealing (Kosowsky and Yuille 1994, Schmitzer 2019) ends once the bounds are close, or at an
/// ε
///   of about 1e-8 (float32: 1e-5) of the largest cost.
struct ExactOptions {
  double gap = 1e-4;  ///< in (0, 1)
  ExactMethod method = ExactMethod::automatic;
  /// The most bytes that the simplex may take, about those of a matrix (m, n), for the method
  /// automatic; ≥ 0. The choice follows from shape and type alone, and changes bits.
  std::int64_t simplex_bytes = std::int64_t{1} << 31;
  Index max_iterations = 100000;        ///< of annealing, at all ε together; >= 1
  double relaxation = 1.8;              ///< of annealing, in [1, 2), see SinkhornOptions
  SinkhornOptions::Tuning tuning = {};  ///< of annealing
};

/// What gradients through a solution differentiate.
enum class SolutionGradient {
  /// The solution, by the implicit function theorem. At a plan that is no solution, they are those
  /// of a solution with the sums of this plan.
  implicit,
  /// The iterations that ran, whether they have converged or not. Memory grows with their number.
  /// Only for plain iterations: without penalties, relaxation, annealing and divergence.
  unrolled
};

struct TransportOptions {
  /// ε > 0, finite. It applies to a cost and to points. Ready-made scores are used as they are;
  /// with them, any ε but 1 is refused.
  double epsilon = 1;

  /// Transport without regularisation: requires ε = 1 and the default `solver`. The plan has the
  /// sums a and b up to rounding. The potentials give the lower bound: C_ij + f_i + g_j ≥ 0 for all
  /// allowed pairs, in units of the cost, and near 0 where the plan has mass.
  std::optional<ExactOptions> exact = {};

  /// Sinkhorn's divergence (Genevay, Peyré and Cuturi 2018; Feydy et al. 2019) in place of
  /// transport. It takes points, or a and b on a common support with a square, symmetric cost:
  ///
  ///   S(a, b) = OT(a, b) − ½ OT(a, a) − ½ OT(b, b),   OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ).
  ///
  /// S is 0 for a = b, and never negative for costs such as |x − y|². With penalties ρ_a = ρ_b = ρ,
  /// a and b may have other sums (Séjourné et al. 2019):
  ///
  ///   OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ) + ρ KL(P1 ‖ a) + ρ KL(Pᵀ1 ‖ b),
  ///   S = OT(a, b) − ½ OT(a, a) − ½ OT(b, b) + ½ ε (Σ a − Σ b)²,
  ///
  /// and primal and dual are then OT − ε Σ a Σ b. Scores and a mask are refused. There are no plan
  /// and no sums. Potentials and figures belong to the transport between a and b.
  /// `row_self_potential` and `col_self_potential` have the potentials of a and of b with itself.
  /// The status is the worst, and `iterations` the largest, of the three problems. The gradients
  /// are those of S.
  bool divergence = false;

  /// Unbalanced transport, with penalties > 0 in units of the cost, at most one of them infinite.
  /// ρ_a ρ_b/(ρ_a + ρ_b) is at most 2³⁰ ε: potentials of that size, which are float64, round a plan
  /// by 1e-7 (also in float32), and larger ones would not converge. A solution exists for all
  /// marginals and masks under which a mass with an exact sum may go somewhere; b is not rescaled.
  /// If Σ a ≠ Σ b, potentials grow with the penalties. The usual tolerance is then at least their
  /// rounding, 2⁻⁵¹ ρ_a ρ_b/(ρ_a + ρ_b) |log(Σ a/Σ b)|/ε times the larger sum, but at most 1e-6
  /// times the larger sum.
  std::optional<MarginalPenalties> penalties = {};

  SinkhornOptions solver = {};

  SolutionGradient gradient = SolutionGradient::implicit;

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
  std::optional<Shape> start = {};                    ///< (…, n)
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
  /// which broadcasts to (…, m, n), ∂L/∂f (…, m) and ∂L/∂g (…, n). Finite; absent ones are 0. Exact
  /// transport has none of them, a divergence no ∂L/∂π. Without penalties, f and g are unique up to
  /// a constant that f gains and g loses; L is taken at the potentials with Σ f = Σ g over the
  /// lines with mass; through iterations, at the potentials of the last one.
  TensorView<const T> grad_plan = {};
  TensorView<const double> grad_row_potential = {};
  TensorView<const double> grad_col_potential = {};
  /// Only for a divergence: ∂L/∂f of a with itself (…, m), and ∂L/∂g of b with itself (…, n).
  TensorView<const double> grad_row_self_potential = {};
  TensorView<const double> grad_col_self_potential = {};

  /// g (…, n) of the first iteration, such as col_potential of an earlier run; f follows from it.
  /// Finite where the column has mass. Without penalties, g is unique up to a constant: a mean
  /// above 2^16 in magnitude is taken off, as it adds rounding. Not for exact transport, a
  /// divergence, annealing and unrolled gradients.
  TensorView<const double> start = {};
};

/// The derivatives of a number L of all problems with respect to the inputs. L depends on them
/// through the solutions, or with SolutionGradient::unrolled through the iterations (MATHEMATICS.md
/// §2). Each has the shape of its input: problems that share an input are summed, in float64 in
/// their order; NaN if one of them is infeasible. For an absent marginal, and for scores of points,
/// each problem has a derivative.
template <class T>
struct SolutionGradients {
  /// By the cost (in units of 1/cost), or by the scores (…, m, n); 0 where a pair is forbidden.
  /// O(m n) memory, for each thread if problems share a matrix. For a divergence only with a cost,
  /// and for changes that keep the cost symmetric.
  TensorView<T> matrix = {};
  /// By a (…, m) and b (…, n). Exact marginals must keep Σ a = Σ b: only changes that keep it have
  /// a meaning. At a marginal of 0 the derivative is one-sided, for an increase. For exact
  /// marginals and a divergence it is finite unless ∂L/∂f ≠ 0, as f is −log a; of a divergence,
  /// unless ∂L/∂f of both its problems have a sum other than 0. With other penalties it is
  /// infinite, as the line's sum grows like a power of a below 1. NaN for a line without a pair
  /// that is allowed and open, with penalties 0; if its side has no mass at all; if infinite
  /// derivatives of both signs are summed; through iterations, at any marginal of 0.
  TensorView<double> row_marginal = {};
  TensorView<double> col_marginal = {};
  TensorView<T> x = {};  ///< (…, m, d); only of points
  TensorView<T> y = {};  ///< (…, n, d); only of points
};

/// How accurate the gradients through a solution are: they hold at a solution only, and solve
/// linear equations. Gradients through iterations are converged, with zeros.
struct SolutionGradientFigures {
  /// done if none were requested; not_converged if the residual is too large, or if plan_error > 0;
  /// infeasible as the problem.
  SolveStatus status = SolveStatus::done;
  /// The L1 error of the plan's sums if the plan is no solution: the iterations did not converge,
  /// or their fixed number left the plan outside of the usual tolerance. Else 0.
  double plan_error = 0;
  /// If plan_error > 0: an estimate of the relative error of the gradients against those at the
  /// solution, as a distance of the derivatives by the scores over their length. With the gradients
  /// by marginals, the larger of it and the same of u and v; of a divergence, the largest of its
  /// three problems. Found by Newton's steps toward the solution; NaN if they do not get there,
  /// for a barycentre, for an unbalanced divergence, and where L depends on potentials of a
  /// divergence at masses of 0.
  double error = 0;
  Index iterations = 0;  ///< of conjugate gradients, one pass over the scores each
  /// Relative residual of the equations; if they converged, at most 1e-10 (float32: 1e-6).
  double residual = 0;
};

/// The shapes of arrays.
template <class T>
TransportShapes shapes_of(const TransportInputs<T>& inputs);

/// Where results go. A result whose view has no data is not returned. `leading` stands for the
/// leading axes of the results. All results of an infeasible problem are NaN.
template <class T>
struct TransportOutputs {
  /// f (leading, m). For a closed line −inf; exact transport gives it a number, and infinite ones
  /// to all lines if none has mass.
  TensorView<double> row_potential = {};
  TensorView<double> col_potential = {};       ///< g (leading, n)
  TensorView<T> plan = {};                     ///< π (leading, m, n): all π_ij, O(m n) memory
  TensorView<double> row_sum = {};             ///< Σ_j π_ij (leading, m)
  TensorView<double> col_sum = {};             ///< Σ_i π_ij (leading, n)
  TensorView<double> row_self_potential = {};  ///< of a divergence: f of a with itself (leading, m)
  TensorView<double> col_self_potential = {};  ///< g of b with itself (leading, n)

  /// Derivatives of TransportProblem::dual at f and g of each problem; at the solution, derivatives
  /// of the optimum. Exact marginals must keep Σ a = Σ b: only changes that keep it have a meaning.
  ///
  /// - By the cost: the plan; by scores, its negative.
  /// - By a, in units of the cost over mass: −ε f_i, or with penalties ρ_a (1 − exp(ε f_i/ρ_a)). At
  ///   a marginal of 0: −inf, but a number for exact transport. At a line that no mass can reach:
  ///   +inf, with penalties ρ_a. For a divergence, a number at a marginal of 0, and +inf, with
  ///   penalties 0, where no mass can reach; if a side has no mass at all, NaN, with penalties −inf
  ///   if the other side has some.
  TensorView<double> row_marginal_gradient = {};  ///< by a (leading, m)
  TensorView<double> col_marginal_gradient = {};  ///< by b (leading, n)
  TensorView<T> x_gradient = {};  ///< 2 Σ_j π_ij (x_i − y_j) (leading, m, d); only of points
  TensorView<T> y_gradient = {};  ///< (leading, n, d); only of points

  SolutionGradients<T> through_solution = {};  ///< of the L of TransportInputs::grad_plan and so on
};

/// The outcome of one problem. The numbers of an infeasible problem are NaN. `value`, `primal`,
/// `dual` and `gap` are in units of the cost if the problem has a cost or points.
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
  /// Of exact transport; else automatic. The iterations of the simplex are its pivots.
  ExactMethod exact_method = ExactMethod::automatic;
  /// Exact transport that did not converge because of rounding: more iterations would not help.
  bool limited_by_rounding = false;

  /// Only with TransportOptions::divergence, in units of the cost; else NaN.
  struct Divergence {
    double value = std::numeric_limits<double>::quiet_NaN();  ///< S
    /// S with ⟨P, C⟩ in place of OT; NaN with penalties.
    double sharp = std::numeric_limits<double>::quiet_NaN();
    /// Bounds of S; NaN if the gap of one of the three problems is NaN.
    double lower = std::numeric_limits<double>::quiet_NaN();
    double upper = std::numeric_limits<double>::quiet_NaN();
  };
  Divergence divergence;

  /// Feasibility of the marginals over the allowed pairs. With penalties, only whether each mass
  /// with an exact sum may go somewhere. With a fixed
  /// number of iterations, only the sums of a divergence are checked for equality.
  Feasibility feasibility;
  /// |Σ a − Σ b| if this is more than rounding but at most half of the requested tolerance: b is
  /// then scaled to the sum of a, and the difference counts towards the tolerance. Else 0.
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
  /// Throws Error(input) that names operands whose shapes do not fit, and Error(usage) for options
  /// out of range, and Error(memory) if the plan does not fit into memory, as `run` does.
  TransportPlan(const TransportShapes& shapes, const TransportOptions& options,
                const Context& context);

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
  /// O(m + n) for points unless exponentials are kept (SinkhornOptions::Tuning), or the simplex
  /// holds all costs.
  std::int64_t workspace_bytes() const;

  /// Solves every problem. Throws Error(input) for arrays whose shapes are not the plan's and for
  /// numbers that are not allowed (annealing: a forbidden pair; a divergence: a cost that is not
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
