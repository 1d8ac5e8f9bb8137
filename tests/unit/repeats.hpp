#pragma once

#include "sanitized.hpp"

namespace attn::testing {

/// The number of random problems to try. Every kind of problem occurs within a quarter of them,
/// which is enough for sanitizers: they check memory accesses, not rounding.
constexpr int repeats(int count) { return sanitized ? (count + 3) / 4 : count; }

}  // namespace attn::testing
