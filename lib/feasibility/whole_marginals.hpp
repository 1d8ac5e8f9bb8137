#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attn {

/// Marginals in whole numbers of one unit, so that flows of them are exact. What is > 0 stays so.
struct WholeMarginals {
  std::vector<std::int64_t> supply;  ///< of the rows
  std::vector<std::int64_t> room;    ///< of the columns
  std::int64_t rounding = 0;         ///< what may be rounding of the marginals; 0: they are exact
};

/// Of a and b, finite and >= 0, whose sums are `most` > 0 at most and the same up to `rounding`.
/// Where all a > 0 are equal and all b > 0 are, exactly so; else by a power of two, sums below 2⁶².
WholeMarginals in_whole_numbers(std::span<const double> a, std::span<const double> b, double most,
                                double rounding);

}  // namespace attn
