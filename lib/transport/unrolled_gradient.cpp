#include "transport/unrolled_gradient.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "gradient/plan_gradient.hpp"
#include "gradient/unrolled_adjoints.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

Numbers logs(const Numbers& masses) {
  Numbers found;
  found.reserve(masses.size());
  for (const double mass : masses) found.push_back(std::log(mass));
  return found;
}

// φ/a of the last iteration, at its weights.
template <class T>
Numbers last_rows(const PlanForward<T>& plan, const Potentials& potentials, const Numbers& a,
                  const PlanUpstream<T>& upstream, int threads) {
  Numbers rows(a.size(), 0.0);
  if (upstream.plan != nullptr) {
    const PooledVector<WeightSet> weights = {{potentials.row, potentials.col}};
    rows = std::move(mean_products(plan.forward, plan.products, weights, threads).front());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double x = upstream.row.empty() ? 0 : upstream.row[i];
    rows[i] = a[i] > 0 ? x / a[i] - rows[i] : 0;
  }
  return rows;
}

// −factor Σ of the adjoints' `part`.
template <class T, class Part>
Numbers by_masses(const PooledVector<WeightAdjoint<T>>& adjoints, const Numbers& masses,
                  double factor, const Part& part) {
  Numbers found(masses.size(), 0.0);
  for (const WeightAdjoint<T>& adjoint : adjoints) {
    const PooledVector<T>& values = part(adjoint);
    for (std::size_t n = 0; n < found.size(); ++n)
      found[n] -= factor * static_cast<double>(values[n]);
  }
  for (std::size_t n = 0; n < found.size(); ++n) {
    if (masses[n] == 0) found[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return found;
}

}  // namespace

template <class T>
Potentials unrolled_gradient(const Scores<T>& scores, const Marginals& marginals,
                             const Potentials& solution, Index iterations,
                             const PlanUpstream<T>& upstream, const ScoreDerivatives<T>& to,
                             int threads) {
  const Numbers log_a = logs(marginals.row);
  const Numbers log_b = logs(marginals.col);
  const PlanForward<T> plan(scores, upstream.plan);
  const LastIteration last{last_rows(plan, solution, marginals.row, upstream, threads),
                           upstream.col, false};
  PooledVector<WeightAdjoint<T>> adjoints =
      unrolled_adjoints(plan.forward, plan.products, {iterations, log_a, log_b}, last, threads);
  Potentials found;
  found.row = by_masses(
      adjoints, marginals.row, 1, [](const auto& one) -> const auto& { return one.row; });
  found.col = by_masses(
      adjoints, marginals.col, std::exp(-first_log_b(log_b)),
      [](const auto& one) -> const auto& { return one.col; });
  to.write([&](const GradientTargets<T>& targets) {
    differentiate_weights(plan.forward, plan.products, std::move(adjoints), targets, threads);
  });
  return found;
}

std::int64_t unrolled_gradient_bytes(Index rows, Index cols, Index iterations,
                                     std::size_t element_size, int threads) {
  return unrolled_bytes({rows, cols, 1, element_size, threads}, iterations, false) +
         3 * (rows + cols) * static_cast<std::int64_t>(sizeof(double)) +
         std::max(rows, cols) * static_cast<std::int64_t>(element_size);
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template Potentials unrolled_gradient(const Scores<T>&, const Marginals&, const Potentials&,     \
                                        Index, const PlanUpstream<T>&, const ScoreDerivatives<T>&, \
                                        int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
