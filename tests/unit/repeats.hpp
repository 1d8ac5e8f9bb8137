#pragma once

namespace attn::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// The number of random problems to try. Every kind of problem occurs within a quarter of them,
/// which is enough for sanitizers: they check memory accesses, not rounding.
constexpr int repeats(int count) { return sanitized ? (count + 3) / 4 : count; }

}  // namespace attn::testing
