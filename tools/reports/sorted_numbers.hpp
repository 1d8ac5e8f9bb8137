#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace attn::tools {

/// Sorts numbers, ascending; NaN, which std::sort alone must not meet, comes last.
inline void sort_numbers(std::vector<double>& numbers) {
  std::sort(numbers.begin(), numbers.end(),
            [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
}

}  // namespace attn::tools
