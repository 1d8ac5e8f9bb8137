#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/tensor.hpp"
#include "tensor/batch.hpp"

namespace attn::plan {

/// The shape of an array, or nothing if it is absent, that is, without data and axes.
template <class T>
std::optional<Shape> shape_of(const TensorView<T>& view) {
  if (view.data == nullptr && view.shape.empty()) return std::nullopt;
  return view.shape;
}

/// An input of a plan: its shape, and which block of it each problem uses. A block consists of the
/// last axes; the leading axes broadcast to the plan's.
class PlanArray {
 public:
  /// A block has `trailing` axes. Throws Error(input) for a shape with fewer axes, or with an axis
  /// of negative length.
  PlanArray(std::string name, std::optional<Shape> shape, std::size_t trailing);

  /// An operand whose block also broadcasts: missing axes of the block have length 1.
  static PlanArray broadcasting(std::string name, std::optional<Shape> shape, std::size_t trailing);

  bool present() const { return shape_.has_value(); }
  const std::string& name() const { return name_; }

  /// The block's axes and the axes before them. Require present().
  const Shape& block_shape() const { return block_; }
  const Shape& leading() const { return leading_; }
  Index axis(std::size_t n) const { return block_[n]; }

  /// Throws Error(input) that names both shapes if the operand is present and its block does not
  /// have these axes. With `stretches`, an axis of length 1 fits, too.
  void require_block(const Shape& expected, bool stretches = false) const;

  /// Sets the leading axes of the problems for `block`. Throws Error(input) if the operand's
  /// leading axes do not broadcast to them.
  void broadcast_to(const Shape& leading);

  /// Throws Error(input) if the shape of a run's array is not the plan's, or the array not dense.
  template <class T>
  void require(const TensorView<T>& given) const {
    require_same(shape_of(given), given.data != nullptr);
    require_dense(name_, given.shape, given.strides);
  }

  /// The block of a problem; null if the operand is absent.
  template <class T>
  T* block(const TensorView<T>& given, Index problem) const {
    return present() ? given.data + block_of(problem) * size_ : nullptr;
  }

  /// The number of that block; requires present().
  Index block_of(Index problem) const { return (*map_)(problem); }

 private:
  void require_same(const std::optional<Shape>& given, bool has_data) const;

  std::string name_;
  std::optional<Shape> shape_;
  Shape leading_;
  Shape block_;
  Index size_ = 0;
  std::optional<LeadingMap> map_;
};

/// The leading axes to which all present operands broadcast. Throws Error(input) that names two
/// operands that disagree.
Shape common_leading(const std::vector<const PlanArray*>& operands);

/// Throws Error(input) if an output is requested and its shape is not `expected`.
void require_output(const std::string& name, bool wanted, const Shape& shape,
                    const Shape& expected);
template <class T>
void require_output(const std::string& name, const TensorView<T>& output, const Shape& expected) {
  require_output(name, output.data != nullptr, output.shape, expected);
  require_dense(name, output.shape, output.strides);
}

/// Throws Error(input) if a required array has no data, or a shape that is not `expected`.
void require_array(const std::string& name, bool has_data, const Shape& shape,
                   const Shape& expected);
template <class T>
void require_array(const std::string& name, const TensorView<T>& array, const Shape& expected) {
  require_array(name, array.data != nullptr, array.shape, expected);
  require_dense(name, array.shape, array.strides);
}

/// The block of `size` numbers that a problem writes; null if the output is not requested.
template <class T>
T* output_block(const TensorView<T>& output, Index problem, Index size) {
  return output.data == nullptr ? nullptr : output.data + problem * size;
}

/// The same as a span; empty if the output is not requested.
template <class T>
std::span<T> output_span(const TensorView<T>& output, Index problem, Index size) {
  T* const first = output_block(output, problem, size);
  return {first, first == nullptr ? 0 : static_cast<std::size_t>(size)};
}

/// Fills the block of a problem with NaN, if the output is requested.
template <class T>
void void_block(const TensorView<T>& output, Index problem, Index size) {
  if (T* const to = output_block(output, problem, size)) {
    std::fill_n(to, size, std::numeric_limits<T>::quiet_NaN());
  }
}

/// Throws Error(input) that names the first number of an array for which `allowed` is false.
template <class T, class Allowed>
void require_numbers(const std::string& name, const T* values, const Shape& shape,
                     const std::string& expected, const Allowed& allowed);

/// Throws Error(input) that names the first number that is NaN or infinite.
template <class T>
void require_finite(const std::string& name, const TensorView<const T>& array);

[[noreturn]] void refuse_number(const std::string& name, const std::string& value, Index position,
                                const Shape& shape, const std::string& expected);

template <class T, class Allowed>
void require_numbers(const std::string& name, const T* values, const Shape& shape,
                     const std::string& expected, const Allowed& allowed) {
  const Index count = element_count(shape);
  for (Index n = 0; n < count; ++n) {
    if (!allowed(values[n])) {
      refuse_number(name, std::to_string(values[n]), n, shape, expected);
    }
  }
}

}  // namespace attn::plan
