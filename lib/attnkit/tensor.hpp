#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace attn {

/// Counts, positions and sizes; 64 bits, signed.
using Index = std::int64_t;

/// Lengths of the axes of a row-major array, outermost first. A scalar has no axes.
using Shape = std::vector<Index>;

/// A dense row-major array in the caller's memory. Copies are cheap and refer to the same numbers.
/// A view without data stands for an absent array.
/// An output must not overlap an input or another output.
template <class T>
struct TensorView {
  T* data = nullptr;
  Shape shape;

  TensorView() = default;
  TensorView(T* first, Shape lengths) : data(first), shape(std::move(lengths)) {}

  explicit operator bool() const noexcept { return data != nullptr; }
  operator TensorView<const T>() const requires(!std::is_const_v<T>) {
    return TensorView<const T>(data, shape);
  }
};

}  // namespace attn
