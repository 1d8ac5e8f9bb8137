#pragma once

#include <string>

#include "attnkit/tensor.hpp"

namespace attn {

/// Product of the axes, 1 for a scalar. Throws Error(input) if it does not fit an Index.
Index element_count(const Shape& shape);

/// The axes of `shape` before its last `trailing` ones. Requires trailing <= shape.size().
Shape leading_axes(const Shape& shape, std::size_t trailing);

/// `leading` with `trailing` appended.
Shape join(const Shape& leading, const Shape& trailing);

/// "(8, 2048, 64)", "(7)", "()".
std::string to_string(const Shape& shape);

/// "[0, 3]": a position, for messages.
std::string index_text(const Shape& index);

/// The shape to which both broadcast. The shapes are aligned at the last axis; an absent axis, or
/// an axis of length 1, stretches. Returns false and leaves `out` unchanged if they do not
/// broadcast.
bool broadcast(const Shape& a, const Shape& b, Shape& out);

/// The multi-index of row-major position `flat` in `shape`. Requires 0 <= flat < element_count.
Shape unravel(Index flat, const Shape& shape);

/// Whether an array with these strides is dense and row-major. None at all stand for a dense array;
/// the stride of an axis of length 1 does not matter, and no stride of an array without elements.
bool is_dense(const Shape& shape, const Shape& strides);

/// Throws Error(input) that names the array unless its strides are allowed (TensorView).
void require_strides(const std::string& name, const Shape& shape, const Shape& strides);

/// Throws Error(input) that names the array unless each of its elements has a place of its own: the
/// strides of an array that is written.
void require_places(const std::string& name, const Shape& shape, const Shape& strides);

/// Throws Error(input) that names the array unless it is dense.
void require_dense(const std::string& name, const Shape& shape, const Shape& strides);

/// Where block number `block` begins in an array with these strides and leading axes. Blocks
/// are numbered in row-major order of the leading axes, the first ones.
Index block_offset(Index block, const Shape& leading, const Shape& strides);

/// The row-major position of multi-index `index` in `shape`; the inverse of unravel.
Index ravel(const Shape& index, const Shape& shape);

}  // namespace attn
