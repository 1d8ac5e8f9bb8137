#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "tensor/shape.hpp"

namespace attn {

/// Uninitialised, owning storage for numbers, aligned for any vector unit. Not std::vector, whose
/// elements would be written once by the constructor only to be overwritten.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;

  /// Room for `size` elements, values unspecified. Throws std::bad_alloc.
  explicit Buffer(Index size)
      : data_(static_cast<T*>(::operator new(bytes(size), alignment))), size_(size) {}

  ~Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const noexcept { return data_.get(); }
  Index size() const noexcept { return size_; }
  T& operator[](Index i) const { return data_.get()[i]; }
  T* begin() const noexcept { return data_.get(); }
  T* end() const noexcept { return data_.get() + size_; }

  /// Makes room for at least `size` elements; what was there is lost if it has to grow.
  void reserve(Index size) {
    if (size > size_) *this = Buffer(size);
  }

 private:
  static constexpr std::align_val_t alignment{64};
  static std::size_t bytes(Index size) {
    constexpr Index most = std::numeric_limits<Index>::max() / static_cast<Index>(sizeof(T));
    if (size < 0 || size > most) throw std::bad_alloc();
    return static_cast<std::size_t>(size) * sizeof(T);
  }
  struct Free {
    void operator()(T* p) const noexcept { ::operator delete(p, alignment); }
  };
  std::unique_ptr<T, Free> data_;
  Index size_ = 0;
};

}  // namespace attn
