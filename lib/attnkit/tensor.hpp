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

/// A row-major array in the caller's memory. Copies are cheap and refer to the same numbers. A view
/// without data stands for an absent array. An output must not overlap an input or another output.
///
/// Element (i, j, …) is data[i·strides[0] + j·strides[1] + …]. Without `strides` the array is
/// dense. Strides are 0 or more. The last one is 1, and the one before is at least the length of
/// the last axis, so that rows do not overlap. AttentionPlan takes operands and `out` with strides,
/// and uses them where they lie; each element of `out` has a place of its own. For everything else,
/// strides that are not dense throw Error(input). So heads of PyTorch's shape (batch, length,
/// heads, depth) pass without a copy:
///
///   in.q = {q, {batch, heads, length, depth}, {length * heads * depth, depth, heads * depth, 1}};
template <class T>
struct TensorView {
  T* data = nullptr;
  Shape shape;
  Shape strides = {};  ///< in elements, one for each axis, or none

  TensorView() = default;
  TensorView(T* first, Shape lengths, Shape steps = {})
      : data(first), shape(std::move(lengths)), strides(std::move(steps)) {}

  explicit operator bool() const noexcept { return data != nullptr; }
  operator TensorView<const T>() const requires(!std::is_const_v<T>) {
    return TensorView<const T>(data, shape, strides);
  }
};

}  // namespace attn
