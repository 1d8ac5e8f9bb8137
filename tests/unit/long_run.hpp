#pragma once

#include <cstdlib>

#include "sanitized.hpp"

namespace attn::testing {

/// Whether to try the cases that take longest, too: where ATTN_LONG is set, as `make test-long`
/// sets it. Never under sanitizers, which take ten times as long.
inline bool long_run() {
  const char* const wanted = std::getenv("ATTN_LONG");
  return !sanitized && wanted != nullptr && *wanted != '\0';
}

}  // namespace attn::testing
