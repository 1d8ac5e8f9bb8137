#pragma once

#include <cstdint>

namespace attn {

/// The largest resident set of this process so far, in bytes.
std::int64_t peak_rss_bytes();

}  // namespace attn
