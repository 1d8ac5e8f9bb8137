#include "plan/transport_problem.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "feasibility/allowed_pairs.hpp"
#include "gradient/energy_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "pass/column_sums.hpp"
#include "plan/dense_weights.hpp"
#include "plan/divergence_terms.hpp"
#include "plan/plan_array.hpp"
#include "plan/transport_options.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/feasible_marginals.hpp"
#include "sinkhorn/marginal_gradient.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/tempered_energy.hpp"
#include "stats/observers.hpp"

namespace attn {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
class TransportSolver {
 public:
  explicit TransportSolver(const PlannedTransport<T>& of) : of_(of) {}

  TransportProblem solve() const {
    if (of_.options.exact) return solve_exactly();
    return of_.options.divergence ? diverge() : solve_entropic();
  }

 private:
  // The derivatives of ⟨π, C⟩ at the plan of these scores.
  void differentiate_points(const Scores<T>& scores, const Potentials& potentials) const {
    const auto sink = make_point_gradient(of_.points, 1);
    if (!sink) return;
    GradientTargets<T> targets;
    targets.energies.push_back(sink.get());
    differentiate_plan(scores, potentials, -1, targets, of_.threads);
  }

  std::optional<double> usual_tolerance() const {
    return tolerance_in_force({}, of_.marginals, sizeof(T));
  }

  // Gradients through the solution, if requested.
  void differentiate_through(SinkhornSolution& solution, TransportProblem& found) const {
    const SolutionGradients<T>& outputs = of_.outputs.through_solution;
    if (!of_.through.wanted() && !outputs.row_marginal && !outputs.col_marginal) return;
    Potentials& potentials = solution.potentials;
    const ImplicitGradient solved =
        implicit_gradient(of_.scores, potentials, of_.marginals, of_.upstream,
                          implicit_options(of_.options.solver.stopping, sizeof(T)), of_.threads);
    found.through_solution =
        plan::gradient_figures(solved, solution_error(solution.summary, usual_tolerance()));
    const Potentials by = implicit_marginal_gradient(of_.scores, solved, potentials, of_.marginals,
                                                     of_.upstream, of_.threads);
    write(outputs.row_marginal, of_.number, by.row);
    write(outputs.col_marginal, of_.number, by.col);
    write_by_scores(of_.through, [&](const GradientTargets<T>& targets) {
      differentiate_solution<T>(of_.scores, potentials, of_.upstream.plan, solved.row, solved.col,
                                targets, of_.threads);
    });
  }

  // The same through the potentials of a divergence, whose costs are one cost or the costs of
  // points.
  void differentiate_through(const DivergenceScores<T>& scores, SinkhornDivergence& solution,
                             TransportProblem& found) const {
    const SolutionGradients<T>& outputs = of_.outputs.through_solution;
    if (!of_.through.wanted() && !outputs.row_marginal && !outputs.col_marginal) return;
    const ImplicitDivergence solved =
        implicit_divergence(scores, solution, of_.marginals, of_.of_divergence,
                            implicit_options(of_.options.solver.stopping, sizeof(T)), of_.threads);
    found.through_solution =
        plan::gradient_figures(solved, solution_error(solution, usual_tolerance()));
    write(outputs.row_marginal, of_.number, solved.marginals.row);
    write(outputs.col_marginal, of_.number, solved.marginals.col);
    write_by_scores(of_.through, [&](const GradientTargets<T>& targets) {
      const PooledVector<SolutionTerm> terms = divergence_terms(solution, solved);
      const bool one_cost = &scores.row == &scores.between;
      differentiate_solutions<T>(scores.between, std::span(terms).first(one_cost ? 3 : 1), nullptr,
                                 targets, of_.threads);
    });
    const TransportPoints<T>& points = of_.through.points;
    add_self_solution_gradient(points.x, scores.row, solution.row.potentials, solved.row, of_.unit,
                               points.by_x, of_.threads);
    add_self_solution_gradient(points.y, scores.col, solution.col.potentials, solved.col, of_.unit,
                               points.by_y, of_.threads);
  }

  // Examines the marginals and makes their sums equal. Returns the tolerance of the iterations.
  double examine(std::optional<double> asked, double in_force, TransportProblem& found) const {
    FeasibleMarginals examined =
        make_feasible(allowed_pairs(of_.scores, of_.threads),
                      {asked, in_force, of_.options.marginal_rounding}, of_.marginals);
    found.feasibility = std::move(examined.feasibility);
    found.rescaled = examined.rescaled;
    return examined.tolerance;
  }

  TransportProblem infeasible(TransportProblem found) const {
    void_outputs();
    found.status = SolveStatus::infeasible;
    found.row_error = found.col_error = nan;
    found.mass = found.value = found.primal = found.dual = found.gap = nan;
    return found;
  }

  // The results observed of a plan.
  class Shown {
   public:
    explicit Shown(const PlannedTransport<T>& of) : of_(of) {
      const Index rows = of.scores.rows();
      const Index cols = of.scores.cols();
      if (T* const to = plan::output_block(of.outputs.plan, of.number, rows * cols)) {
        dense_.emplace(MatrixView<T>(to, rows, cols));
        observers_.push_back(&*dense_);
      }
      if (of.outputs.row_sum) observers_.push_back(&row_sums_);
      if (of.outputs.col_sum) observers_.push_back(&col_sums_);
    }

    const ObserverList<T>& observers() const { return observers_; }

    void write_sums() {
      if (of_.outputs.row_sum) write(of_.outputs.row_sum, of_.number, row_sums_.values());
      if (of_.outputs.col_sum) write(of_.outputs.col_sum, of_.number, col_sums_.values());
    }

   private:
    const PlannedTransport<T>& of_;
    RowSums<T> row_sums_;
    ColumnSums<T> col_sums_;
    std::optional<DenseWeights<T>> dense_;
    ObserverList<T> observers_;
  };

  void write_potentials(const Potentials& potentials) const {
    write(of_.outputs.row_potential, of_.number, potentials.row);
    write(of_.outputs.col_potential, of_.number, potentials.col);
  }

  void write_marginal_gradients(const Potentials& potentials) const {
    if (!of_.outputs.row_marginal_gradient && !of_.outputs.col_marginal_gradient) return;
    const MarginalGradient gradient =
        marginal_gradient(of_.scores, potentials, of_.marginals, of_.unit, of_.threads);
    write(of_.outputs.row_marginal_gradient, of_.number, gradient.row);
    write(of_.outputs.col_marginal_gradient, of_.number, gradient.col);
  }

  TransportProblem solve_entropic() const {
    TransportProblem found;
    SinkhornOptions solver = of_.options.solver;
    found.tolerance = tolerance_in_force(solver.stopping, of_.marginals, sizeof(T));
    if (found.tolerance && !of_.marginals.penalties) {
      solver.stopping.tolerance = examine(solver.stopping.tolerance, *found.tolerance, found);
      if (found.feasibility.prospect != Prospect::total_support) return infeasible(found);
    }
    Shown shown(of_);
    SinkhornSolution solution =
        solve_sinkhorn(of_.scores, of_.marginals, solver, shown.observers(), of_.threads);
    write_potentials(solution.potentials);
    shown.write_sums();
    write_marginal_gradients(solution.potentials);
    differentiate_points(of_.scores, solution.potentials);
    differentiate_through(solution, found);
    take(solution, found);
    return found;
  }

  TransportProblem solve_exactly() const {
    TransportProblem found;
    examine(std::nullopt, 0, found);
    // Forbidden pairs are refused by the solver.
    if (found.feasibility.prospect == Prospect::unequal_totals) return infeasible(found);
    Shown shown(of_);
    const ExactSolution solution =
        solve_exact(of_.scores, of_.marginals, *of_.options.exact, shown.observers(), of_.threads);
    write_potentials(solution.potentials);
    shown.write_sums();
    write_marginal_gradients(solution.potentials);
    if (of_.points.x.data != nullptr) {
      const TemperedEnergy<T> energy(of_.scores, 1 / solution.summary.epsilon);
      typename Scores<T>::Terms terms;
      terms.energy = &energy;
      const TransportPoints<T>& points = of_.points;
      differentiate_points(Scores<T>(terms), solution.scaled_down);
      add_missing_gradient(points.x, solution.row_missing, points.y, solution.col_missing,
                           points.by_x);
      add_missing_gradient(points.y, solution.col_missing, points.x, solution.row_missing,
                           points.by_y);
    }
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
    return found;
  }

  TransportProblem diverge() const {
    TransportProblem found;
    SinkhornOptions solver = of_.options.solver;
    found.tolerance = tolerance_in_force(solver.stopping, of_.marginals, sizeof(T));
    const double tolerance = examine(solver.stopping.tolerance, found.tolerance.value_or(0), found);
    if (found.tolerance) solver.stopping.tolerance = tolerance;
    if (found.feasibility.prospect != Prospect::total_support) return infeasible(found);
    std::optional<SelfScores<T>> row, col;
    if (of_.points.x.data != nullptr) {
      row.emplace(of_.points.x, of_.options.epsilon);
      col.emplace(of_.points.y, of_.options.epsilon);
    }
    const DivergenceScores<T> scores{of_.scores, row ? row->scores() : of_.scores,
                                     col ? col->scores() : of_.scores};
    SinkhornDivergence solution = solve_divergence(scores, of_.marginals, solver, of_.threads);
    write_potentials(solution.between.potentials);
    write(of_.outputs.row_self_potential, of_.number, solution.row.potentials.row);
    write(of_.outputs.col_self_potential, of_.number, solution.col.potentials.col);
    if (of_.outputs.row_marginal_gradient || of_.outputs.col_marginal_gradient) {
      Potentials by = divergence_gradient(scores, solution, of_.threads);
      for (double& value : by.row) value *= of_.unit;
      for (double& value : by.col) value *= of_.unit;
      write(of_.outputs.row_marginal_gradient, of_.number, by.row);
      write(of_.outputs.col_marginal_gradient, of_.number, by.col);
    }
    const TransportPoints<T>& points = of_.points;
    differentiate_points(of_.scores, solution.between.potentials);
    subtract_self_gradient(points.x, scores.row, solution.row.potentials, points.by_x, of_.threads);
    subtract_self_gradient(points.y, scores.col, solution.col.potentials, points.by_y, of_.threads);
    differentiate_through(scores, solution, found);
    solution.between.summary.status = solution.status();
    solution.between.summary.iterations = solution.iterations();
    take(solution.between, found);
    found.divergence = {of_.unit * solution.value, of_.unit * solution.sharp,
                        of_.unit * solution.lower, of_.unit * solution.upper};
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

  static void write(const TensorView<double>& output, Index problem,
                    std::span<const double> values) {
    if (!output) return;
    std::copy(values.begin(), values.end(),
              output.data + problem * static_cast<Index>(values.size()));
  }

  void void_outputs() const {
    const TransportOutputs<T>& outputs = of_.outputs;
    const Index rows = of_.scores.rows();
    const Index cols = of_.scores.cols();
    const auto fill = [&](const auto& output, Index size) {
      if (auto* const to = plan::output_block(output, of_.number, size)) std::fill_n(to, size, nan);
    };
    fill(outputs.row_potential, rows);
    fill(outputs.col_potential, cols);
    fill(outputs.row_self_potential, rows);
    fill(outputs.col_self_potential, cols);
    fill(outputs.plan, rows * cols);
    fill(outputs.row_sum, rows);
    fill(outputs.col_sum, cols);
    fill(outputs.row_marginal_gradient, rows);
    fill(outputs.col_marginal_gradient, cols);
    fill(outputs.x_gradient, rows * of_.points.x.cols);
    fill(outputs.y_gradient, cols * of_.points.x.cols);
    const SolutionGradients<T>& through = outputs.through_solution;
    fill(through.matrix, rows * cols);
    fill(through.row_marginal, rows);
    fill(through.col_marginal, cols);
    fill(through.x, rows * of_.points.x.cols);
    fill(through.y, cols * of_.points.x.cols);
  }

  const PlannedTransport<T>& of_;
};

}  // namespace

template <class T>
TransportProblem solve_transport(const PlannedTransport<T>& problem) {
  return TransportSolver<T>(problem).solve();
}

template TransportProblem solve_transport(const PlannedTransport<float>&);
template TransportProblem solve_transport(const PlannedTransport<double>&);

}  // namespace attn
