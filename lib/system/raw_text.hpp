#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace attn {

/// Writes the texts, at most 8, to standard error by one system call, so that no other process
/// writes between them: for signal handlers, and for use when memory has run out. Failures are
/// ignored.
inline void write_raw(std::initializer_list<const char*> texts) noexcept {
  std::array<iovec, 8> parts;
  std::size_t count = 0;
  for (const char* text : texts) {
    if (count == parts.size()) break;
    parts[count++] = {const_cast<char*>(text), std::strlen(text)};
  }
  [[maybe_unused]] const ssize_t written =
      writev(STDERR_FILENO, parts.data(), static_cast<int>(count));
}

}  // namespace attn
