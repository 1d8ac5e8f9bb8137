#pragma once

namespace attn::testing {

/// Whether the libraries under test are compiled with sanitizers; the tests are not.
#ifdef ATTN_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace attn::testing
