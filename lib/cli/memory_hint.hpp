#pragma once

namespace attn::cli {

/// The hint where memory runs out, whoever notices it.
inline constexpr const char* less_memory_hint = "a smaller --memory or fewer --threads need less";

}  // namespace attn::cli
