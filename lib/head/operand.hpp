#pragma once

#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "tensor/array_source.hpp"
#include "tensor/batch.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The order of heads and positions among the axes of q, k, v and out.
enum class HeadLayout { heads_first, heads_inside };

/// Where an array has the axis of heads, the last of its leading axes.
enum class HeadAxis {
  leading,     ///< (…, H, rows, cols)
  inside,      ///< (…, rows, H, cols)
  in_rows,     ///< (H·rows, cols): head h has the rows from h·rows on
  in_columns,  ///< (…, rows, H·cols): head h has the columns from h·cols on
  whole,  ///< (…, H, D, cols), (…, H, d) or (H·d): a block has all heads, as H·D rows or H·d
          ///< columns
};

/// An array; each problem uses one block of it.
struct Operand {
  ArraySource dataset;
  Shape leading;   ///< its leading axes, heads first
  Index rows = 1;  ///< of a block; 1 for a mask or bias that broadcasts
  Index cols = 1;
  LeadingMap block;  ///< problem → block
  /// For a matrix: 0 forbids a pair (preference), as −inf does elsewhere.
  bool zero_forbids = false;
  bool finite = false;     ///< for a matrix: no element forbids a pair, all must be finite
  bool of_cost = false;    ///< for a matrix: its negatives are the scores, and +inf forbids a pair
  bool from_zero = false;  ///< for a cost: no element is below 0
  HeadAxis heads = HeadAxis::leading;
};

/// A block of the operand's shape, in an array that begins at `numbers`. The strides are the
/// array's, as in TensorView; none: it is dense.
template <class T>
MatrixView<T> block_at(const Operand& operand, T* numbers, const Shape& strides, Index block) {
  const Index rows = operand.rows;
  const Index cols = operand.cols;
  if (strides.empty()) return {numbers + block * rows * cols, rows, cols};
  const std::size_t axes = operand.leading.size();
  // The stride of a single row does not matter, and may be less than its length.
  const Index stride = rows > 1 && strides.size() >= axes + 2 ? strides[axes] : cols;
  return {numbers + block_offset(block, operand.leading, strides), rows, cols, stride};
}

/// Start and count of some rows and columns of a block, along the axes of the dataset.
struct BlockAxes {
  Shape start;
  Shape count;
  BlockAxes(const Operand& operand, Index block, Index row0, Index rows, Index col0, Index cols);
};

/// The types of numbers that a dataset may have.
enum class NumberTypes {
  floating,
  any,  ///< also integers and bool
};

/// Vectors (…, L, d), or (…, L, H, d), with at least two axes and none empty; `expected` describes
/// the axes. `grouped`: a block may serve several positions of the last leading axis (grouped
/// heads). Throws Error(input) naming dataset and shape.
Operand vectors_operand(const ArraySource& dataset, const Shape& leading, bool grouped,
                        HeadLayout layout);
void require_vectors(const ArraySource& dataset, const char* expected,
                     NumberTypes types = NumberTypes::floating);

/// How a dataset of one axis becomes a matrix of one row; empty for other shapes.
std::string hint_on_vector(const ArraySource& dataset);

/// Throws Error(input) for an axis of length 0.
void require_no_empty_axis(const ArraySource& dataset);

/// The shape of vectors with the heads first: (…, H, L, d).
Shape heads_first(const ArraySource& dataset, HeadLayout layout);

/// One vector per problem, (…, length), a block of one row.
Operand vector_operand(const ArraySource& dataset, const Shape& leading, bool grouped, Index length,
                       NumberTypes types = NumberTypes::floating);

/// A whole number in [low, high] per problem, from integers aligned with the first leading axes;
/// axes of length 1 and missing axes broadcast: key_length (B), (B, 1), (1), a scalar. Throws
/// Error(input) naming the dataset if it does not match.
std::vector<Index> integers_per_problem(const ArraySource& dataset, const Shape& leading, Index low,
                                        Index high);

/// A matrix (…, rows or 1, cols or 1) that broadcasts to `leading`.
Operand matrix_operand(const ArraySource& dataset, const Shape& leading, Index rows, Index cols,
                       const char* axes = "queries, keys");

/// One number in [low, high] per problem, from a dataset that is a scalar or aligned with the last
/// leading axes; used for `hybrid` and `sink`. Throws Error(input) naming the dataset if it does
/// not match.
std::vector<double> numbers_per_problem(const ArraySource& dataset, const Shape& leading,
                                        double low, double high);

/// "a.h5:/weights, head [0, 3]"; without the head if there are no leading axes.
std::string problem_place(const std::string& what, const Shape& leading, Index problem);

/// Runs `body`, and puts `place()` in front of the message of any Error that it throws, except an
/// error of an output, which names the file.
template <class Place, class Body>
auto naming(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.failure() == Failure::output) throw;
    throw error.at(place());
  }
}

/// Throws Error(input) unless the dataset has one of these types.
void require_numbers(const ArraySource& dataset, NumberTypes types);
void require_floating(const ArraySource& dataset);

/// The position of element `flat` of a block in its dataset: "[0, 3, 17]".
std::string element_text(const Shape& start, const Shape& count, Index flat);

/// Throws Error(numerical): a number is finite, but not as float32.
[[noreturn]] void refuse_beyond_float32(const ArraySource& dataset, double value,
                                        const std::string& index, const std::string& hint);

/// Refuses element `flat` of a block read from `dataset`: Error(input) naming its index and the
/// `expected` values, or Error(numerical) if the number is only beyond float32.
template <class T>
[[noreturn]] void refuse_element(const ArraySource& dataset, const Shape& start, const Shape& count,
                                 Index flat, T value, const char* expected);

/// Refuses the first element of a block that is not finite.
template <class T>
void require_finite(const ArraySource& dataset, const Shape& start, const Shape& count,
                    const T* values);

}  // namespace attn
