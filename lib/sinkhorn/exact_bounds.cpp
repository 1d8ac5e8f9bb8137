#include "sinkhorn/exact_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "sinkhorn/c_transform.hpp"

namespace attn {
namespace {

// A closed line may have an infinite potential.
double weighted(const PooledVector<double>& marginal, const PooledVector<double>& potential) {
  double sum = 0;
  for (std::size_t n = 0; n < marginal.size(); ++n) {
    if (marginal[n] > 0) sum += marginal[n] * potential[n];
  }
  return sum;
}

double distance(const PooledVector<double>& sums, const PooledVector<double>& marginal) {
  double total = 0;
  for (std::size_t n = 0; n < sums.size(); ++n) total += std::abs(sums[n] - marginal[n]);
  return total;
}

}  // namespace

template <class T>
double bound_below(const Scores<T>& scores, const Marginals& marginals, Potentials& potentials,
                   int threads) {
  PooledVector<double>& f = potentials.row;
  PooledVector<double>& g = potentials.col;
  f.assign(marginals.row.size(), 0.0);
  c_transform(scores, g, f, threads);
  complete_columns(scores, f, g, threads);
  return -weighted(marginals.row, f) - weighted(marginals.col, g);
}

template <class T>
void bound_above(const PlanSums<T>& sums, const Marginals& marginals, double gap, double size,
                 ExactSummary& summary) {
  summary.value = -sums.score();
  summary.row_error = distance(sums.rows(), marginals.row);
  summary.col_error = distance(sums.cols(), marginals.col);
  // A plan that misses its marginals may cost less than the best one that has them.
  const double most = summary.value + size * (summary.row_error + summary.col_error);
  const bool close = most - summary.lower <= std::max(gap * std::abs(most), summary.rounding);
  summary.status = close ? SolveStatus::converged : SolveStatus::not_converged;
  summary.lower = std::min(summary.lower, summary.value);
}

#define ATTN_FOR_TYPE(T)                                                             \
  template double bound_below(const Scores<T>&, const Marginals&, Potentials&, int); \
  template void bound_above(const PlanSums<T>&, const Marginals&, double, double, ExactSummary&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
