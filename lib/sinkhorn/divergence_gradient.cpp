#include "sinkhorn/divergence_gradient.hpp"

#include <algorithm>
#include <cmath>

#include "sinkhorn/completed_lines.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// One side of the derivatives by marginals of unbalanced transport with the scores of
// RelativeEnergy. `means` and `completed` are read for lines without mass only.
struct RelativeSide {
  std::span<const double> z;         // u or v
  std::span<const double> sums;      // r or c
  std::span<const double> marginal;  // a or b
  std::span<const double> upstream;  // x or y; empty: 0
  double penalty;

  bool has_mass(std::size_t n) const { return marginal[n] > 0 && sums[n] > 0; }

  bool needs_completion() const {
    for (std::size_t n = 0; n < marginal.size(); ++n) {
      if (!has_mass(n)) return true;
    }
    return false;
  }

  double derivative(std::size_t n, const PooledVector<double>& means,
                    const PooledVector<double>& completed) const {
    if (has_mass(n)) return -z[n] * (1 + 1 / penalty) * sums[n] / marginal[n];
    if (std::isnan(means[n])) return 0;  // nowhere to go
    const double x = upstream.empty() ? 0 : upstream[n];
    if (x != 0 && marginal[n] == 0) return -x * infinity;
    return means[n] * std::exp(completed[n] / (penalty + 1)) - (x == 0 ? 0 : x / marginal[n]);
  }

  void add(const PooledVector<double>& means, const PooledVector<double>& completed,
           PooledVector<double>& by) const {
    for (std::size_t n = 0; n < by.size(); ++n) by[n] += derivative(n, means, completed);
  }
};

template <class T>
void add_relative_gradient(const Scores<T>& scores, const ImplicitGradient& solved,
                           const Potentials& potentials, const Marginals& marginals,
                           const PlanUpstream<T>& upstream, int threads,
                           PooledVector<double>& by_row, PooledVector<double>& by_col) {
  const RelativeSide row{solved.row, solved.row_sums, marginals.row, upstream.row,
                         marginals.penalties->row};
  const RelativeSide col{solved.col, solved.col_sums, marginals.col, upstream.col,
                         marginals.penalties->col};
  PooledVector<double> means, completed;
  if (row.needs_completion()) {
    means = row_means<T>(scores, potentials.col, nullptr, solved.col, threads);
    completed = completed_rows<T>(scores, potentials.col, threads);
  }
  row.add(means, completed, by_row);
  if (col.needs_completion()) {
    means = col_means<T>(scores, potentials.row, nullptr, solved.row, threads);
    completed = completed_cols<T>(scores, potentials.row, threads);
  }
  col.add(means, completed, by_col);
}

// The derivatives through one of the problems; adds the derivatives by its marginals.
template <class T>
ImplicitGradient through_problem(const Scores<T>& scores, SinkhornSolution& solution,
                                 const Marginals& marginals, const PlanUpstream<T>& upstream,
                                 const ImplicitOptions& options, int threads,
                                 PooledVector<double>& by_row, PooledVector<double>& by_col) {
  ImplicitGradient solved =
      implicit_gradient<T>(scores, solution.potentials, marginals, upstream, options, threads);
  if (marginals.penalties) {
    add_relative_gradient(scores, solved, solution.potentials, marginals, upstream, threads, by_row,
                          by_col);
    return solved;
  }
  const Potentials by = implicit_marginal_gradient<T>(scores, solved, solution.potentials,
                                                      marginals, upstream, threads);
  for (std::size_t i = 0; i < by.row.size(); ++i) by_row[i] += by.row[i];
  for (std::size_t j = 0; j < by.col.size(); ++j) by_col[j] += by.col[j];
  return solved;
}

}  // namespace

template <class T>
Potentials divergence_gradient(const DivergenceScores<T>& scores, const SinkhornDivergence& found,
                               const std::optional<MarginalPenalties>& penalties, int threads) {
  Potentials gradient;
  gradient.row = completed_rows<T>(scores.row, found.row.potentials.col, threads);
  gradient.col = completed_rows<T>(scores.col, found.col.potentials.col, threads);
  // Potentials here have the opposite sign of those in the literature on transport.
  const PooledVector<double> row =
      completed_rows<T>(scores.between, found.between.potentials.col, threads);
  const PooledVector<double> col =
      completed_cols<T>(scores.between, found.between.potentials.row, threads);
  const auto subtract = [&](const PooledVector<double>& between, PooledVector<double>& from) {
    for (std::size_t n = 0; n < between.size(); ++n) {
      if (penalties) {
        const double soft = penalties->row + 1;
        from[n] = soft * (std::expm1(from[n] / soft) - std::expm1(between[n] / soft));
      } else {
        from[n] -= between[n];
      }
    }
  };
  subtract(row, gradient.row);
  subtract(col, gradient.col);
  return gradient;
}

template <class T>
ImplicitDivergence implicit_divergence(const DivergenceScores<T>& scores, SinkhornDivergence& found,
                                       const Marginals& marginals,
                                       const DivergenceUpstream& upstream,
                                       const ImplicitOptions& options, int threads) {
  ImplicitDivergence all;
  PooledVector<double>& by_a = all.marginals.row;
  PooledVector<double>& by_b = all.marginals.col;
  by_a.assign(marginals.row.size(), 0.0);
  by_b.assign(marginals.col.size(), 0.0);
  all.between =
      through_problem<T>(scores.between, found.between, marginals,
                         {nullptr, upstream.row, upstream.col}, options, threads, by_a, by_b);
  const auto with_itself = [&](const Scores<T>& own, SinkhornSolution& solution,
                               const PooledVector<double>& marginal,
                               std::span<const double> by_potential, PooledVector<double>& by) {
    PooledVector<double> half(by_potential.begin(), by_potential.end());
    for (double& value : half) value /= 2;
    return through_problem<T>(own, solution, {marginal, marginal, marginals.penalties},
                              {nullptr, half, half}, options, threads, by, by);
  };
  all.row = with_itself(scores.row, found.row, marginals.row, upstream.row_self, by_a);
  all.col = with_itself(scores.col, found.col, marginals.col, upstream.col_self, by_b);
  for (const ImplicitGradient* const one : {&all.between, &all.row, &all.col}) {
    all.status = std::max(all.status, one->status);
    all.iterations = std::max(all.iterations, one->iterations);
    all.residual = std::max(all.residual, one->residual);
  }
  return all;
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template Potentials divergence_gradient(const DivergenceScores<T>&, const SinkhornDivergence&,   \
                                          const std::optional<MarginalPenalties>&, int);           \
  template ImplicitDivergence implicit_divergence(const DivergenceScores<T>&, SinkhornDivergence&, \
                                                  const Marginals&, const DivergenceUpstream&,     \
                                                  const ImplicitOptions&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
