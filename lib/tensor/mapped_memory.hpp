#pragma once

#include <cstddef>
#include <utility>

namespace attn {

/// Zeroed memory mapped from the system, in large pages if available (first touched in a tenth of
/// the time). It is returned to the system as a whole, whereas heap memory can leave holes too
/// small for the next block of that size.
class MappedMemory {
 public:
  MappedMemory() = default;

  /// Throws std::bad_alloc. Pages that are never touched take no memory.
  explicit MappedMemory(std::size_t bytes);

  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return first_; }

 private:
  void* first_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace attn
