#pragma once

#include <cstdint>

namespace attn::testing {

/// How often this process has called operator new; 0 under a sanitizer.
std::int64_t allocations();

}  // namespace attn::testing
