#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace attn {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  void reset() noexcept;

  /// Gives up ownership without closing.
  int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// open(2) with O_CLOEXEC, retried on EINTR. On failure the result is empty and errno is set.
Descriptor open_descriptor(const std::string& path, int flags, unsigned mode = 0);

/// Writes all bytes at the position of `descriptor`. Returns 0, or errno.
int write_fully(int descriptor, const char* data, std::size_t count) noexcept;

/// The failure of copy_to_end; error_number is 0 if there was none.
struct CopyFailure {
  int error_number = 0;
  bool writing = false;  ///< false: the failure was in reading
};

/// Copies from the position of `from` to the position of `to`, until `from` ends. Works for files,
/// pipes and devices, and beyond the limit of one call (Linux: 2147479552 bytes). Adds the number
/// of bytes to `copied`.
CopyFailure copy_to_end(int from, int to, std::size_t& copied);

}  // namespace attn
