#include "fenchel/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/tile.hpp"

namespace attn::fenchel {

bool minus_log_preference(const double* u, Index n, double* out) {
  double largest = 0;
  for (Index i = 0; i < n; ++i) {
    if (!(u[i] >= 0 && std::isfinite(u[i]))) {
      throw Error(Failure::input, "the preference of template " + std::to_string(i) + " is " +
                                      std::to_string(u[i]) + ", expected a finite number >= 0");
    }
    largest = std::max(largest, u[i]);
  }
  if (largest == 0) return false;
  double total = 0;
  for (Index i = 0; i < n; ++i) total += u[i] / largest;
  const double log_total = std::log(total);
  for (Index i = 0; i < n; ++i) {
    // Not log(u / largest): the quotient may be 0.
    out[i] = u[i] > 0 ? log_total + std::log(largest) - std::log(u[i])
                      : std::numeric_limits<double>::infinity();
  }
  return true;
}

double log_partition(const double* logits, const double* minus_log_u, Index n, double* p) {
  const double most = kernel::row_max(logits, n, minus_log_u);
  const double total = kernel::exp_row(p, logits, n, minus_log_u, most);
  kernel::scale_row(p, n, 1 / total);
  return most + std::log(total);
}

Summed relative_entropy(const double* p, const double* minus_log_u, Index n) {
  double cross = 0;
  for (Index i = 0; i < n; ++i) cross += p[i] > 0 ? p[i] * minus_log_u[i] : 0;
  const double entropy = kernel::entropy_row(p, n);
  return {cross - entropy, std::abs(cross) + entropy};
}

}  // namespace attn::fenchel
