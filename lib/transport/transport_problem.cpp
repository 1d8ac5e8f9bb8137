#include "transport/transport_problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "feasibility/allowed_pairs.hpp"
#include "gradient/plan_gradient.hpp"
#include "sinkhorn/divergence_gradient.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/feasible_marginals.hpp"
#include "sinkhorn/marginal_gradient.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/tempered_energy.hpp"
#include "tensor/error_fall.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"
#include "transport/gradient_error.hpp"
#include "transport/points.hpp"
#include "transport/unrolled_gradient.hpp"

namespace attn {
namespace {

// The terms from which differentiate_solutions makes the derivative by the scores through a
// divergence's potentials: of a with b, of a with itself and of b with itself. The result refers to
// `found` and `solved`.
PooledVector<SolutionTerm> divergence_terms(const SinkhornDivergence& found,
                                            const ImplicitDivergence& solved) {
  PooledVector<SolutionTerm> terms;
  const auto add = [&](const Potentials& potentials, const ImplicitGradient& of) {
    terms.push_back({1, potentials.row, potentials.col, of.row, of.col});
  };
  const auto add_all = [&](const SinkhornSolution& solution, const ProblemGradient& of) {
    add(solution.potentials, of);
    for (const ImplicitTerm& term : of.without_mass) add(term.potentials, term.solved);
  };
  add_all(found.between, solved.between);
  add_all(found.row, solved.row);
  add_all(found.col, solved.col);
  return terms;
}

// The lines of a side with exact sums whose mass may go nowhere. A solution has closed them.
Shortage unserved(double penalty, const PooledVector<double>& marginal,
                  const PooledVector<double>& potential) {
  Shortage found;
  for (std::size_t n = 0; std::isinf(penalty) && n < marginal.size(); ++n) {
    if (marginal[n] == 0 || potential[n] != minus_infinity) continue;
    found.lines.push_back(static_cast<Index>(n));
    found.demand += marginal[n];
  }
  return found;
}

template <class T>
class TransportSolver {
 public:
  TransportSolver(const OneTransport<T>& of, const TransportTargets<T>& to, int threads,
                  SinkhornProgress* progress)
      : of_(of), to_(to), threads_(threads), progress_(progress) {}

  TransportProblem solve() const {
    if (of_.options.exact) return solve_exactly();
    return of_.options.divergence ? diverge() : solve_entropic();
  }

 private:
  // Examines the marginals and makes their sums equal. Returns the tolerance of the iterations.
  double examine(std::optional<double> asked, double in_force, TransportProblem& found) const {
    FeasibleMarginals examined =
        make_feasible(allowed_pairs(of_.scores, threads_),
                      {asked, in_force, of_.options.marginal_rounding}, of_.marginals);
    found.feasibility = std::move(examined.feasibility);
    found.rescaled = examined.rescaled;
    return examined.tolerance;
  }

  // With penalties there is a plan unless a line with an exact sum may go nowhere.
  bool serves_exact_lines(const Potentials& potentials, TransportProblem& found) const {
    const std::optional<MarginalPenalties>& penalties = of_.marginals.penalties;
    if (!penalties || !found.tolerance) return true;
    Feasibility& examined = found.feasibility;
    examined.rows = unserved(penalties->row, of_.marginals.row, potentials.row);
    examined.cols = unserved(penalties->col, of_.marginals.col, potentials.col);
    const bool served = examined.rows.lines.empty() && examined.cols.lines.empty();
    if (!served) examined.prospect = Prospect::no_plan;
    return served;
  }

  TransportProblem infeasible(TransportProblem found) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    found.status = SolveStatus::infeasible;
    found.row_error = found.col_error = nan;
    found.mass = found.value = found.primal = found.dual = found.gap = nan;
    if (to_.through_solution.wanted()) found.through_solution = infeasible_figures();
    return found;
  }

  void write_potentials(const Potentials& potentials) const {
    write_result(to_.row_potential, potentials.row);
    write_result(to_.col_potential, potentials.col);
  }

  void write_marginal_gradients(const Potentials& potentials) const {
    if (to_.optimum.row_marginal.empty() && to_.optimum.col_marginal.empty()) return;
    const MarginalGradient gradient =
        marginal_gradient(of_.scores, potentials, of_.marginals, of_.unit, threads_);
    write_result(to_.optimum.row_marginal, gradient.row);
    write_result(to_.optimum.col_marginal, gradient.col);
  }

  // The derivatives of ⟨π, C⟩ at the plan of these scores.
  void differentiate_cost(const Scores<T>& scores, const Potentials& potentials) const {
    to_.optimum.scores.write([&](const GradientTargets<T>& targets) {
      differentiate_plan(scores, potentials, -1, targets, threads_);
    });
  }

  ImplicitOptions equations() const {
    return implicit_options(of_.options.solver.stopping, sizeof(T));
  }

  std::optional<double> usual_tolerance() const {
    return tolerance_in_force({}, of_.marginals, sizeof(T));
  }

  void differentiate_through(SinkhornSolution& solution, TransportProblem& found) const {
    const TransportDerivatives<T>& to = to_.through_solution;
    if (!to.wanted()) return;
    Potentials& potentials = solution.potentials;
    if (of_.options.gradient == SolutionGradient::unrolled) {
      const Potentials by =
          unrolled_gradient(of_.scores, of_.marginals, potentials, solution.summary.iterations,
                            of_.upstream, to.scores, threads_);
      write_result(to.row_marginal, by.row);
      write_result(to.col_marginal, by.col);
      found.through_solution.status = SolveStatus::converged;
      return;
    }
    const ImplicitGradient solved = implicit_gradient(of_.scores, potentials, of_.marginals,
                                                      of_.upstream, equations(), threads_);
    found.through_solution =
        gradient_figures(solved, solution_error(solution.summary, usual_tolerance()));
    const bool by_marginals = !to.row_marginal.empty() || !to.col_marginal.empty();
    if (found.through_solution.plan_error > 0) {
      found.through_solution.error =
          gradient_error(of_.scores, potentials, of_.marginals, of_.upstream, solved, by_marginals,
                         equations(), threads_);
    }
    if (by_marginals) {
      const Potentials by = implicit_marginal_gradient(of_.scores, solved, potentials,
                                                       of_.marginals, of_.upstream, threads_);
      write_result(to.row_marginal, by.row);
      write_result(to.col_marginal, by.col);
    }
    to.scores.write([&](const GradientTargets<T>& targets) {
      differentiate_solution<T>(of_.scores, potentials, of_.upstream.plan, solved.row, solved.col,
                                targets, threads_);
    });
  }

  // The largest gradient_error of the three problems of a divergence, NaN if one is unknown. With
  // penalties, a solution has other scores than the given ones. It leaves out lines of mass 0.
  double divergence_error(const DivergenceScores<T>& scores, const SinkhornDivergence& solution,
                          const ImplicitDivergence& solved) const {
    if (of_.marginals.penalties) return std::numeric_limits<double>::quiet_NaN();
    const TransportDerivatives<T>& to = to_.through_solution;
    const bool by_marginals = !to.row_marginal.empty() || !to.col_marginal.empty();
    double most = 0;
    const auto take = [&](const Scores<T>& own, const SinkhornSolution& of,
                          const Marginals& marginals, const PlanUpstream<T>& upstream,
                          const ProblemGradient& gradient) {
      const bool whole = gradient.without_mass.empty();
      const double error = whole ? gradient_error(own, of.potentials, marginals, upstream, gradient,
                                                  by_marginals, equations(), threads_)
                                 : std::numeric_limits<double>::quiet_NaN();
      if (!(error <= most)) most += error - most;
    };
    const auto take_self = [&](const Scores<T>& own, const SinkhornSolution& of,
                               const PooledVector<double>& masses, std::span<const double> upstream,
                               const ProblemGradient& gradient) {
      PooledVector<double> half(upstream.begin(), upstream.end());
      for (double& value : half) value /= 2;
      take(own, of, {masses, masses}, {nullptr, half, half}, gradient);
    };
    take(scores.between, solution.between, of_.marginals,
         {nullptr, of_.upstream.row, of_.upstream.col}, solved.between);
    take_self(scores.row, solution.row, of_.marginals.row, of_.row_self_upstream, solved.row);
    take_self(scores.col, solution.col, of_.marginals.col, of_.col_self_upstream, solved.col);
    return most;
  }

  // The same through the potentials of a divergence, whose costs are one cost or the costs of
  // points.
  void differentiate_through(const DivergenceScores<T>& scores, SinkhornDivergence& solution,
                             TransportProblem& found) const {
    const TransportDerivatives<T>& to = to_.through_solution;
    if (!to.wanted()) return;
    const ImplicitDivergence solved = implicit_divergence(
        scores, solution, of_.marginals,
        {of_.upstream.row, of_.upstream.col, of_.row_self_upstream, of_.col_self_upstream},
        equations(), threads_);
    found.through_solution = gradient_figures(solved, solution_error(solution, usual_tolerance()));
    if (found.through_solution.plan_error > 0) {
      found.through_solution.error = divergence_error(scores, solution, solved);
    }
    write_result(to.row_marginal, solved.marginals.row);
    write_result(to.col_marginal, solved.marginals.col);
    to.scores.write([&](const GradientTargets<T>& targets) {
      const PooledVector<SolutionTerm> terms = divergence_terms(solution, solved);
      const bool one_cost = &scores.row == &scores.between;
      const std::size_t between = 1 + solved.between.without_mass.size();
      differentiate_solutions<T>(scores.between,
                                 std::span(terms).first(one_cost ? terms.size() : between), nullptr,
                                 targets, threads_);
    });
    const TransportPoints<T>& points = to.scores.points;
    const auto add_self = [&](const TransportPoints<T>& own, const Scores<T>& with_itself,
                              const Potentials& potentials, const ProblemGradient& of) {
      add_self_solution_gradient(own, with_itself, potentials, of, threads_);
      for (const ImplicitTerm& term : of.without_mass) {
        add_self_solution_gradient(own, with_itself, term.potentials, term.solved, threads_);
      }
    };
    add_self(rows_with_themselves(points), scores.row, solution.row.potentials, solved.row);
    add_self(cols_with_themselves(points), scores.col, solution.col.potentials, solved.col);
  }

  TransportProblem solve_entropic() const {
    TransportProblem found;
    SinkhornOptions solver = of_.options.solver;
    found.tolerance = tolerance_in_force(solver.stopping, of_.marginals, sizeof(T));
    if (found.tolerance && !of_.marginals.penalties) {
      solver.stopping.tolerance = examine(solver.stopping.tolerance, *found.tolerance, found);
      if (found.feasibility.prospect != Prospect::total_support) return infeasible(found);
    }
    SinkhornSolution solution =
        solve_sinkhorn(of_.scores, of_.marginals, solver, to_.plan, threads_, progress_, of_.start);
    if (!serves_exact_lines(solution.potentials, found)) return infeasible(found);
    write_potentials(solution.potentials);
    write_marginal_gradients(solution.potentials);
    differentiate_cost(of_.scores, solution.potentials);
    differentiate_through(solution, found);
    take(solution, found);
    return found;
  }

  TransportProblem solve_exactly() const {
    TransportProblem found;
    examine(std::nullopt, 0, found);
    const ExactOptions& options = *of_.options.exact;
    found.exact_method = exact_method(options, of_.scores.rows(), of_.scores.cols(), sizeof(T));
    const Prospect prospect = found.feasibility.prospect;
    // Annealing refuses forbidden pairs.
    if (prospect == Prospect::unequal_totals ||
        (prospect == Prospect::no_plan && found.exact_method == ExactMethod::simplex)) {
      return infeasible(found);
    }
    const ExactSolution solution =
        solve_exact(of_.scores, of_.marginals, options, to_.plan, threads_, progress_);
    write_potentials(solution.potentials);
    write_marginal_gradients(solution.potentials);
    if (to_.optimum.scores.points.wanted()) differentiate_exact(solution);
    const ExactSummary& summary = solution.summary;
    found.status = summary.status;
    found.iterations = summary.iterations;
    found.row_error = summary.row_error;
    found.col_error = summary.col_error;
    found.mass = of_.marginals.total();
    found.value = of_.of_cost ? summary.value : -summary.value;
    found.primal = summary.value;
    found.dual = summary.lower;
    found.gap = summary.value - summary.lower;
    found.limited_by_rounding = summary.limited_by_rounding;
    if (to_.exact != nullptr) *to_.exact = summary;
    return found;
  }

  // The derivatives by the points of the cost of the plan as shown.
  void differentiate_exact(const ExactSolution& solution) const {
    const TransportPoints<T>& points = to_.optimum.scores.points;
    if (solution.summary.method == ExactMethod::simplex) {
      write_plan_gradient(points, solution.pairs);
      return;
    }
    const TemperedEnergy<T> energy(of_.scores, 1 / solution.summary.epsilon);
    typename Scores<T>::Terms terms;
    terms.energy = &energy;
    differentiate_cost(Scores<T>(terms), solution.scaled_down);
    add_missing_gradient(points, solution.row_missing, solution.col_missing);
  }

  TransportProblem diverge() const {
    TransportProblem found;
    SinkhornOptions solver = of_.options.solver;
    found.tolerance = tolerance_in_force(solver.stopping, of_.marginals, sizeof(T));
    if (!of_.marginals.penalties) {
      const double tolerance =
          examine(solver.stopping.tolerance, found.tolerance.value_or(0), found);
      if (found.tolerance) solver.stopping.tolerance = tolerance;
      if (found.feasibility.prospect != Prospect::total_support) return infeasible(found);
    }
    const TransportPoints<T>& points = to_.optimum.scores.points;
    const TransportPoints<T>& scored = to_.through_solution.scores.points;
    std::optional<SelfScores<T>> row, col;
    if (scored.energy != nullptr) {
      row.emplace(rows_with_themselves(scored));
      col.emplace(cols_with_themselves(scored));
    }
    const DivergenceScores<T> scores{of_.scores, row ? row->scores() : of_.scores,
                                     col ? col->scores() : of_.scores};
    SinkhornDivergence solution = solve_divergence(scores, of_.marginals, solver, threads_);
    write_potentials(solution.between.potentials);
    write_result(to_.row_self_potential, solution.row.potentials.row);
    write_result(to_.col_self_potential, solution.col.potentials.col);
    const TransportDerivatives<T>& optimum = to_.optimum;
    if (!optimum.row_marginal.empty() || !optimum.col_marginal.empty()) {
      Potentials by = divergence_gradient(scores, solution, of_.marginals, threads_);
      for (double& value : by.row) value *= of_.unit;
      for (double& value : by.col) value *= of_.unit;
      write_result(optimum.row_marginal, by.row);
      write_result(optimum.col_marginal, by.col);
    }
    differentiate_cost(of_.scores, solution.between.potentials);
    subtract_self_gradient(rows_with_themselves(points), scores.row, solution.row.potentials,
                           threads_);
    subtract_self_gradient(cols_with_themselves(points), scores.col, solution.col.potentials,
                           threads_);
    differentiate_through(scores, solution, found);
    found.divergence = {of_.unit * solution.value, of_.unit * solution.sharp,
                        of_.unit * solution.lower, of_.unit * solution.upper};
    SinkhornSummary& summary = solution.between.summary;
    for (const SinkhornSolution* const self : {&solution.row, &solution.col}) {
      summary.convergence = slower(summary.convergence, self->summary.convergence);
    }
    summary.status = solution.status();
    summary.iterations = solution.iterations();
    take(solution.between, found);
    return found;
  }

  void take(SinkhornSolution& solution, TransportProblem& found) const {
    const SinkhornSummary& summary = solution.summary;
    found.status = summary.status;
    found.iterations = summary.iterations;
    found.convergence = summary.convergence;
    found.row_error = summary.row_error;
    found.col_error = summary.col_error;
    found.mass = summary.mass;
    found.value = of_.of_cost ? -of_.unit * summary.score : summary.score;
    found.primal = of_.unit * summary.primal;
    found.dual = of_.unit * summary.dual;
    found.gap = of_.unit * summary.gap;
    found.errors = std::move(solution.errors);
  }

  const OneTransport<T>& of_;
  const TransportTargets<T>& to_;
  int threads_;
  SinkhornProgress* progress_;
};

}  // namespace

template <class T>
TransportProblem solve_transport(const OneTransport<T>& problem, const TransportTargets<T>& to,
                                 int threads, SinkhornProgress* progress) {
  return TransportSolver<T>(problem, to, threads, progress).solve();
}

std::int64_t through_solution_bytes(const TransportOptions& options, Index rows, Index cols,
                                    std::size_t element_size, int threads) {
  if (options.gradient == SolutionGradient::unrolled) {
    return unrolled_gradient_bytes(rows, cols, options.solver.stopping.most_iterations(),
                                   element_size, threads);
  }
  // A divergence also has square problems.
  if (options.divergence) rows = cols = std::max(rows, cols);
  return gradient_error_bytes(rows, cols) +
         std::max(implicit_gradient_bytes(rows, cols, element_size, threads),
                  differentiate_plans_bytes(rows, cols, 2, element_size, threads));
}

std::int64_t divergence_bytes(Index rows, Index cols, const EnergyDescription* energy, Index depth,
                              std::size_t element_size) {
  std::int64_t bytes = 14 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
  if (energy == nullptr) return bytes;
  for (const Index count : {rows, cols}) {
    bytes += energy->bytes({count, count, depth, depth}, element_size) +
             2 * count * depth * static_cast<std::int64_t>(element_size);
  }
  return bytes;
}

template TransportProblem solve_transport(const OneTransport<float>&,
                                          const TransportTargets<float>&, int, SinkhornProgress*);
template TransportProblem solve_transport(const OneTransport<double>&,
                                          const TransportTargets<double>&, int, SinkhornProgress*);

}  // namespace attn
