#pragma once

#include <cstdint>
#include <span>

#include "tensor/pooled_vector.hpp"

namespace attn {

/// Marginals as whole multiples of one unit, so that their flows are exact. Positive marginals stay
/// positive.
struct WholeMarginals {
  PooledVector<std::int64_t> supply;  ///< of the rows
  PooledVector<std::int64_t> room;    ///< of the columns
  std::int64_t rounding =
      0;  ///< amounts up to this may be rounding of the marginals; 0: they are exact
};

/// Converts a and b, finite and >= 0, whose sums are at most `most` > 0 and equal up to `rounding`.
/// Exact if all positive a are equal and all positive b are equal. Otherwise each number is scaled
/// by a power of two and rounded to a whole one, positive numbers to 1 or more; the sums are below
/// 2⁶².
WholeMarginals in_whole_numbers(std::span<const double> a, std::span<const double> b, double most,
                                double rounding);

}  // namespace attn
