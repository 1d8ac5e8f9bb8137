#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace attn {

/// A file descriptor that is closed with its owner.
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

/// open(2) with O_CLOEXEC, tried again when interrupted. Empty with errno set where it fails.
Descriptor open_descriptor(const std::string& path, int flags, unsigned mode = 0);

/// What went wrong in copy_to_end; error_number 0: nothing.
struct CopyFailure {
  int error_number = 0;
  bool writing = false;  ///< else reading
};

/// Copies from one descriptor's position to another's until the first ends, whatever the two are
/// and however much one call moves (Linux: at most 2147479552 bytes). Adds to `copied`.
CopyFailure copy_to_end(int from, int to, std::size_t& copied);

}  // namespace attn
