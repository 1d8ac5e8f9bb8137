#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attn::testing {

using Vector = std::vector<long double>;

constexpr long double nothing = -std::numeric_limits<long double>::infinity();

/// log Σ exp, plainly; `nothing` if there are only such terms.
inline long double log_sum(const Vector& terms) {
  long double largest = nothing;
  for (const long double x : terms) largest = std::max(largest, x);
  if (largest == nothing) return nothing;
  long double sum = 0;
  for (const long double x : terms) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

}  // namespace attn::testing
