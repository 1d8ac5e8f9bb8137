#pragma once

#include <limits>

namespace attn::testing {

/// Of scores, potentials, costs and bounds.
inline constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace attn::testing
