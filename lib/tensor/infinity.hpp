#pragma once

#include <limits>

namespace attn {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// The score of a forbidden pair, and the potential of a query or key with nothing allowed.
inline constexpr double minus_infinity = -infinity;

}  // namespace attn
