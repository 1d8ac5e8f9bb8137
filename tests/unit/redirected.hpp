#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace attn::testing {

/// Redirects a descriptor (0, 1 or 2) to a file while it exists.
class Redirected {
 public:
  Redirected(int descriptor, const std::string& path, int flags)
      : Redirected(descriptor, open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  /// Takes ownership of `onto`.
  Redirected(int descriptor, int onto)
      : descriptor_(descriptor), saved_(fcntl(descriptor, F_DUPFD_CLOEXEC, 10)) {
    std::fflush(nullptr);  // what was written before goes where it should
    dup2(onto, descriptor_);
    close(onto);
  }
  ~Redirected() {
    dup2(saved_, descriptor_);
    close(saved_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int descriptor_;
  int saved_;
};

}  // namespace attn::testing
