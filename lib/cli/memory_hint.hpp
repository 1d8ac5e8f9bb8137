#pragma once

namespace attn::cli {

/// The hint for every error of memory.
inline constexpr const char* less_memory_hint = "a smaller --memory or fewer --threads need less";

}  // namespace attn::cli
