#pragma once

#include <cstddef>
#include <utility>

namespace attn {

/// Memory of its own from the system, zeros, in large pages where it has them (first touched in a
/// tenth of the time). What is allocated freely leaves holes that nothing of that size fits into
/// again; this is given back whole.
class MappedMemory {
 public:
  MappedMemory() = default;

  /// Throws std::bad_alloc. What is not touched takes no memory.
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
