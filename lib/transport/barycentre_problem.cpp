#include "transport/barycentre_problem.hpp"

#include <utility>

#include "gradient/plan_gradient.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
class BarycentreSolver {
 public:
  BarycentreSolver(const OneBarycentre<T>& of, const BarycentreTargets<T>& to, int threads,
                   SinkhornProgress* progress)
      : of_(of), to_(to), threads_(threads), progress_(progress) {}

  BarycentreResult solve() const {
    Barycentre found =
        find_barycentre(of_.scores, of_.histograms, of_.options, threads_, progress_);
    BarycentreResult result = summarised(found);
    write_result(to_.barycentre, found.masses);
    write_result(to_.row_potential, found.row);
    write_result(to_.col_potential, found.col);
    if (!to_.plan.empty()) show_mean_plan(of_.scores, found, of_.histograms, to_.plan, threads_);
    HistogramPotentials potentials;
    if (!to_.optimum.weights.empty() || !to_.through_barycentre.weights.empty()) {
      potentials = histogram_potentials(of_.scores, found, of_.histograms, of_.options, threads_);
      if (potentials.status == SolveStatus::not_converged) {
        result.status = SolveStatus::not_converged;
      }
    }
    differentiate_optimum(found, potentials);
    if (to_.through_barycentre.wanted()) {
      result.through_barycentre = differentiate_through(found, potentials);
    }
    return result;
  }

 private:
  BarycentreResult summarised(Barycentre& found) const {
    const SinkhornSummary& summary = found.summary;
    BarycentreResult result;
    result.status = summary.status;
    result.iterations = summary.iterations;
    result.convergence = summary.convergence;
    result.tolerance = tolerance_in_force(of_.options.stopping, of_.total, sizeof(T));
    result.row_error = summary.row_error;
    result.col_error = summary.col_error;
    result.value = of_.of_cost ? -of_.unit * summary.score : summary.score;
    result.primal = of_.unit * summary.primal;
    result.dual = of_.unit * summary.dual;
    result.gap = of_.unit * summary.gap;
    result.errors = std::move(found.errors);
    return result;
  }

  // Calls use(k, w_k) for the histograms with a weight > 0.
  template <class Use>
  void for_weighted(const Use& use) const {
    for (Index k = 0; k < of_.histograms.count; ++k) {
      const double weight = of_.histograms.weights[static_cast<std::size_t>(k)];
      if (weight != 0) use(k, weight);
    }
  }

  void differentiate_optimum(const Barycentre& found, const HistogramPotentials& potentials) const {
    const BarycentreDerivatives<T>& to = to_.optimum;
    if (!to.histograms.empty()) {
      PooledVector<double> by = barycentre_gradient(found, of_.histograms);
      for (double& value : by) value *= of_.unit;
      write_result(to.histograms, by);
    }
    if (!to.weights.empty()) {
      PooledVector<double> by = weight_gradient(found, of_.histograms, potentials);
      for (double& value : by) value *= of_.unit / of_.weight_sum;
      write_result(to.weights, by);
    }
    to.scores.write([&](const GradientTargets<T>& targets) {
      PooledVector<PlanTerm> plans;
      for_weighted([&](Index k, double weight) {
        plans.push_back({-weight, part_of(found.row, k, rows()), part_of(found.col, k, cols())});
      });
      differentiate_plans<T>(of_.scores, plans, targets, threads_);
    });
  }

  SolutionGradientFigures differentiate_through(Barycentre& found,
                                                const HistogramPotentials& potentials) const {
    const BarycentreDerivatives<T>& to = to_.through_barycentre;
    const ImplicitBarycentre solved =
        implicit_barycentre(of_.scores, found, of_.histograms, of_.upstream,
                            implicit_options(of_.options.stopping, sizeof(T)), threads_);
    if (!to.histograms.empty()) {
      write_result(to.histograms, implicit_histogram_gradient(of_.scores, found, of_.histograms,
                                                              of_.upstream, solved, threads_));
    }
    if (!to.weights.empty()) {
      PooledVector<double> by = implicit_weight_gradient(
          of_.scores, found, of_.histograms, of_.upstream, solved, potentials, threads_);
      for (double& value : by) value /= of_.weight_sum;
      write_result(to.weights, by);
    }
    to.scores.write([&](const GradientTargets<T>& targets) {
      PooledVector<SolutionTerm> terms;
      for_weighted([&](Index k, double weight) {
        terms.push_back({weight, part_of(found.row, k, rows()), part_of(found.col, k, cols()),
                         part_of(solved.row, k, rows()), part_of(solved.col, k, cols())});
      });
      differentiate_solutions<T>(of_.scores, terms, of_.upstream.plan, targets, threads_);
    });
    return gradient_figures(
        solved, solution_error(found.summary, tolerance_in_force({}, of_.total, sizeof(T))));
  }

  Index rows() const { return of_.scores.rows(); }
  Index cols() const { return of_.scores.cols(); }

  const OneBarycentre<T>& of_;
  const BarycentreTargets<T>& to_;
  int threads_;
  SinkhornProgress* progress_;
};

}  // namespace

template <class T>
BarycentreResult solve_barycentre(const OneBarycentre<T>& problem, const BarycentreTargets<T>& to,
                                  int threads, SinkhornProgress* progress) {
  return BarycentreSolver<T>(problem, to, threads, progress).solve();
}

template BarycentreResult solve_barycentre(const OneBarycentre<float>&,
                                           const BarycentreTargets<float>&, int, SinkhornProgress*);
template BarycentreResult solve_barycentre(const OneBarycentre<double>&,
                                           const BarycentreTargets<double>&, int,
                                           SinkhornProgress*);

}  // namespace attn
