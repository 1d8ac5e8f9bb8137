#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>

namespace attn {

/// Counts, positions and sizes; 64 bits, signed.
using Index = std::int64_t;

/// Lengths of the axes of a row-major array, outermost first; also positions and strides, which
/// have a number for each axis. A scalar has no axes.
///
/// A Shape is used like a std::vector<Index>, but its numbers lie within it, and nothing is
/// allocated. Whatever would give it more than `most_axes` throws Error(input).
class Shape {
 public:
  using value_type = Index;
  using iterator = Index*;
  using const_iterator = const Index*;

  static constexpr std::size_t most_axes = 32;  ///< the limit of HDF5 and of NumPy 1

  Shape() = default;
  Shape(std::initializer_list<Index> lengths) { insert(end(), lengths); }
  Shape(std::size_t axes, Index length) { resize(axes, length); }
  template <std::forward_iterator Iterator>
  Shape(Iterator first, Iterator last) {
    insert(end(), first, last);
  }

  std::size_t size() const noexcept { return axes_; }
  bool empty() const noexcept { return axes_ == 0; }
  Index* data() noexcept { return lengths_; }
  const Index* data() const noexcept { return lengths_; }

  Index* begin() noexcept { return lengths_; }
  Index* end() noexcept { return lengths_ + axes_; }
  const Index* begin() const noexcept { return lengths_; }
  const Index* end() const noexcept { return lengths_ + axes_; }

  /// These require that the axis exists.
  Index& operator[](std::size_t axis) noexcept { return lengths_[axis]; }
  Index operator[](std::size_t axis) const noexcept { return lengths_[axis]; }
  Index& front() noexcept { return lengths_[0]; }
  Index front() const noexcept { return lengths_[0]; }
  Index& back() noexcept { return lengths_[axes_ - 1]; }
  Index back() const noexcept { return lengths_[axes_ - 1]; }
  void pop_back() noexcept { --axes_; }

  void push_back(Index length) { resize(axes_ + 1, length); }
  void resize(std::size_t axes, Index length = 0) {
    if (axes > axes_) std::fill(end(), lengths_ + allowed(axes), length);
    axes_ = axes;
  }

  /// Inserts axes before `at`. Returns where the first of them is.
  template <std::forward_iterator Iterator>
  Index* insert(const Index* at, Iterator first, Iterator last) {
    Index* const place = begin() + (at - begin());
    const auto more = static_cast<std::size_t>(std::distance(first, last));
    const std::size_t axes = allowed(axes_ + more);
    std::copy_backward(place, end(), lengths_ + axes);
    std::copy(first, last, place);
    axes_ = axes;
    return place;
  }
  Index* insert(const Index* at, std::initializer_list<Index> lengths) {
    return insert(at, lengths.begin(), lengths.end());
  }
  Index* insert(const Index* at, Index length) { return insert(at, {length}); }

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static std::size_t allowed(std::size_t axes) {
    if (axes > most_axes) refuse(axes);
    return axes;
  }
  [[noreturn]] static void refuse(std::size_t axes);

  std::size_t axes_ = 0;
  Index lengths_[most_axes] = {};
};

/// A row-major array in the caller's memory. Copies are cheap and refer to the same numbers. A view
/// without data stands for an absent array. An output must not overlap an input or another output.
///
/// Element (i, j, …) is data[i·strides[0] + j·strides[1] + …]. Without `strides` the array is
/// dense. Strides are 0 or more. The last one is 1, and the one before is at least the length of
/// the last axis, so that rows do not overlap. AttentionPlan takes operands, `out` and gradients
/// with strides; each element of what it writes has a place of its own. Operands and `out` are used
/// where they lie. For everything else, strides that are not dense throw Error(input). So heads of
/// PyTorch's shape (batch, length, heads, depth) pass without a copy:
///
///   in.q = {q, {batch, heads, length, depth}, {length * heads * depth, depth, heads * depth, 1}};
template <class T>
struct TensorView {
  T* data = nullptr;
  Shape shape;
  Shape strides = {};  ///< in elements, one for each axis, or none

  TensorView() = default;
  TensorView(T* first, const Shape& lengths, const Shape& steps = {})
      : data(first), shape(lengths), strides(steps) {}

  explicit operator bool() const noexcept { return data != nullptr; }
  operator TensorView<const T>() const requires(!std::is_const_v<T>) {
    return TensorView<const T>(data, shape, strides);
  }
};

}  // namespace attn
