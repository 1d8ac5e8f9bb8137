#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ATTN_TEST_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTN_TEST_UNDER_ASAN 1
#endif
#endif

namespace attn::testing {

/// Whether an address sanitizer is active.
#ifdef ATTN_TEST_UNDER_ASAN
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace attn::testing
