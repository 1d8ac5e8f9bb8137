#pragma once

#include <limits>

namespace attn {

inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

}  // namespace attn
