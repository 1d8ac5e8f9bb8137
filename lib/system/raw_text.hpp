#pragma once

#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace attn {

/// Writes the texts to standard error by system calls only: for signal handlers, and for use when
/// memory has run out. Failures are ignored.
inline void write_raw(std::initializer_list<const char*> texts) noexcept {
  for (const char* text : texts) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  }
}

}  // namespace attn
