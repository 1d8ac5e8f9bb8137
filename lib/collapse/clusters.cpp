#include "collapse/clusters.hpp"

#include <cmath>
#include <limits>

namespace attn::collapse {

// Not by Eigen: its LLT refuses singular matrices, and its LDLT, which exchanges coordinates, has
// another factor, so that other points would be drawn.
std::optional<std::vector<double>> covariance_factor(std::span<const double> covariance,
                                                     Index dimension) {
  const auto d = static_cast<std::size_t>(dimension);
  const double rounding =
      8 * static_cast<double>(dimension) * std::numeric_limits<double>::epsilon();
  std::vector<double> factor(d * d, 0.0);
  for (std::size_t c = 0; c < d; ++c) {
    const double variance = covariance[c * d + c];
    if (!(variance >= 0 && std::isfinite(variance))) return std::nullopt;
    double pivot = variance;
    for (std::size_t b = 0; b < c; ++b) pivot -= factor[c * d + b] * factor[c * d + b];
    if (pivot < -rounding * variance) return std::nullopt;
    const bool open = pivot > (c > 0 ? rounding * variance : 0);
    const double root = open ? std::sqrt(pivot) : 0;
    factor[c * d + c] = root;
    for (std::size_t r = c + 1; r < d; ++r) {
      double rest = covariance[r * d + c];
      if (!std::isfinite(rest)) return std::nullopt;
      // Each root by itself: the product of the variances may overflow, or vanish.
      const double size = std::sqrt(variance) * std::sqrt(covariance[r * d + r]);
      for (std::size_t b = 0; b < c; ++b) rest -= factor[r * d + b] * factor[c * d + b];
      if (open) {
        factor[r * d + c] = rest / root;
      } else if (!(std::abs(rest) <= std::sqrt(rounding) * size)) {
        return std::nullopt;
      }
    }
  }
  return factor;
}

void Clusters::place(std::span<const std::int64_t> labels, double* points) const {
  const auto d = static_cast<std::size_t>(dimension);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const auto cluster = static_cast<std::size_t>(labels[n]);
    double* const point = points + n * d;
    const double* const factor = factors[cluster].data();
    const double* const centre = centres[cluster].data();
    if (factors[cluster].size() == d) {
      for (std::size_t c = 0; c < d; ++c) point[c] = centre[c] + factor[c] * point[c];
      continue;
    }
    // From the last coordinate on, because earlier ones are still needed.
    for (std::size_t c = d; c-- > 0;) {
      double sum = 0;
      for (std::size_t b = 0; b <= c; ++b) sum += factor[c * d + b] * point[b];
      point[c] = centre[c] + sum;
    }
  }
}

}  // namespace attn::collapse
