#include "sinkhorn/plan_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "attnkit/error.hpp"
#include "tensor/infinity.hpp"

namespace attn {

bool totals_agree(const Marginals& marginals) {
  constexpr double equal_totals = 1e-12;
  const double col_total = std::accumulate(marginals.col.begin(), marginals.col.end(), 0.0);
  return std::abs(marginals.total() - col_total) <= equal_totals * col_total;
}

template <class T>
SinkhornSummary plan_summary(const PlanSums<T>& sums, const Marginals& marginals,
                             const Potentials& potentials, double size) {
  SinkhornSummary summary;
  summary.score = sums.score();
  const PooledVector<double>& r = sums.rows();
  const PooledVector<double>& c = sums.cols();
  double mass = 0;
  double moments = 0;  // Σ r f + Σ c g
  double linear = 0;   // Σ a f + Σ b g
  double far = 0;      // cost of scaling the plan down
  double missing = 0;  // E
  double largest[2] = {minus_infinity, minus_infinity};
  const auto add_line = [&](double sum, double marginal, double potential, double& most) {
    if (sum > marginal) far += 2 * (sum - marginal) * (sum - marginal) / sum;
    if (std::isinf(potential)) return;
    moments += sum * potential;
    linear += marginal * potential;
    if (marginal > 0) most = std::max(most, potential + 0.5 * std::log(marginal));
  };
  for (std::size_t i = 0; i < r.size(); ++i) {
    mass += r[i];
    summary.row_error += std::abs(r[i] - marginals.row[i]);
    missing += std::max(0.0, r[i] - marginals.row[i]);
    add_line(r[i], marginals.row[i], potentials.row[i], largest[0]);
  }
  for (std::size_t j = 0; j < c.size(); ++j) {
    summary.col_error += std::abs(c[j] - marginals.col[j]);
    missing += std::max(0.0, marginals.col[j] - c[j]);
    add_line(c[j], marginals.col[j], potentials.col[j], largest[1]);
  }
  summary.mass = mass;
  summary.primal = -moments - mass;
  summary.dual = -linear - mass;
  if (std::isinf(size) || !totals_agree(marginals)) return summary;
  const double farthest = largest[0] + largest[1] + size;
  summary.gap = far + (missing > 0 ? missing * std::max(0.0, farthest) : 0);
  return summary;
}

template <class T>
void require_room(double total, const std::string& what) {
  // As a fraction of the largest number of T.
  constexpr double most_total = 0x1p-20;
  constexpr double most = static_cast<double>(std::numeric_limits<T>::max()) * most_total;
  if (total <= most) return;
  constexpr bool is_float = sizeof(T) == sizeof(float);
  throw Error(Failure::numerical,
              what + " more than " + (is_float ? "float32" : "float64") + " has room for",
              is_float ? Remedy::float64 : Remedy::none);
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template SinkhornSummary plan_summary(const PlanSums<T>&, const Marginals&, const Potentials&, \
                                        double);                                                 \
  template void require_room<T>(double, const std::string&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
