#pragma once

#include "long_run.hpp"

namespace attn::testing {

/// The number of random problems to try. Every kind of problem occurs within a quarter of them,
/// which is enough for short runs.
inline int repeats(int count) { return long_run() ? count : (count + 3) / 4; }

}  // namespace attn::testing
