#pragma once

#include <sanitizer/asan_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "tensor/memory_pool.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The most bytes that a Buffer allocates in addition to its elements.
inline constexpr Index buffer_margin = 128 + MemoryPool::block_margin;

/// Uninitialised, owning storage for numbers, aligned for any vector unit. std::vector would first
/// write every element in its constructor. Its memory comes from the thread's MemoryPool if it has
/// one.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;

  /// Room for `size` elements, values unspecified. Throws std::bad_alloc.
  explicit Buffer(Index size)
      : block_(take_block(bytes(size) + alignment)), data_(aligned(block_.get())), size_(size) {
    // Lets the address sanitizer catch accesses past the last element.
    [[maybe_unused]] const std::byte* const past = block_.get() + bytes(size) + alignment;
    ASAN_POISON_MEMORY_REGION(end(), past - reinterpret_cast<std::byte*>(end()));
  }

  ~Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : block_(std::move(other.block_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    block_ = std::move(other.block_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const noexcept { return data_; }
  Index size() const noexcept { return size_; }
  T& operator[](Index i) const { return data_[i]; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }

  /// Makes room for at least `size` elements; the contents are lost if the buffer has to grow.
  void reserve(Index size) {
    if (size > size_) *this = Buffer(size);
  }

 private:
  // Aligned by hand: glibc's aligned allocation asks for more room than the block that it has just
  // freed, so large blocks, head after head, would never reuse the same memory.
  static constexpr std::size_t alignment = 64;
  static T* aligned(std::byte* block) {
    const auto past = reinterpret_cast<std::uintptr_t>(block) % alignment;
    return reinterpret_cast<T*>(block + (alignment - past) % alignment);
  }
  static std::size_t bytes(Index size) {
    constexpr Index most = (std::numeric_limits<Index>::max() - static_cast<Index>(alignment)) /
                           static_cast<Index>(sizeof(T));
    if (size < 0 || size > most) throw std::bad_alloc();
    return static_cast<std::size_t>(size) * sizeof(T);
  }
  MemoryBlock block_;
  T* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace attn
