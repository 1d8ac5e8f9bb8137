#include "tensor/difference.hpp"

#include <cmath>
#include <limits>

#include "tensor/infinity.hpp"

namespace attn {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// NaN ranks above every number.
bool exceeds(double error, double largest) {
  return error > largest || (std::isnan(error) && !std::isnan(largest));
}

double relative_to(double absolute, double b) {
  if (b == 0 || std::isinf(absolute)) return infinity;
  return absolute / std::fabs(b);
}

}  // namespace

void Difference::note(double absolute, double relative, Index at) {
  if (exceeds(absolute, largest_absolute)) {
    largest_absolute = absolute;
    absolute_at = at;
  }
  if (exceeds(relative, largest_relative)) {
    largest_relative = relative;
    relative_at = at;
  }
}

void Difference::add(const double* a, const double* b, Index first, Index count,
                     const Tolerance& tolerance) {
  compared += count;
  for (Index k = 0; k < count; ++k) {
    if (a[k] == b[k]) continue;
    if (std::isnan(a[k]) || std::isnan(b[k])) {
      if (tolerance.nan_equal && std::isnan(a[k]) && std::isnan(b[k])) continue;
      ++differing;
      note(not_a_number, not_a_number, first + k);
      continue;
    }
    const double absolute = std::fabs(a[k] - b[k]);
    const bool finite = std::isfinite(a[k]) && std::isfinite(b[k]);
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(b[k]);
    if (!finite || absolute > allowed) ++differing;
    note(absolute, relative_to(absolute, b[k]), first + k);
  }
}

void Difference::add(const std::int64_t* a, const std::int64_t* b, Index first, Index count,
                     const Tolerance& tolerance) {
  compared += count;
  for (Index k = 0; k < count; ++k) {
    if (a[k] == b[k]) continue;
    // The distance between any two values fits the unsigned type.
    const auto above = static_cast<std::uint64_t>(a[k] > b[k] ? a[k] : b[k]);
    const auto below = static_cast<std::uint64_t>(a[k] > b[k] ? b[k] : a[k]);
    const auto absolute = static_cast<double>(above - below);
    const auto reference = static_cast<double>(b[k]);
    if (absolute > tolerance.absolute + tolerance.relative * std::fabs(reference)) ++differing;
    note(absolute, relative_to(absolute, reference), first + k);
  }
}

}  // namespace attn
