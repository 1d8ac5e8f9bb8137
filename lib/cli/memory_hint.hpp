#pragma once

namespace attn::cli {

/// The hint for every error of memory.
inline constexpr const char* less_memory_hint = "a smaller --memory or fewer --threads need less";

/// The memory that a tool takes besides --memory: its code and the code of its libraries.
inline constexpr const char* memory_of_program = "some 30 MB";

}  // namespace attn::cli
