#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "io/arrays/bytes.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// An array of elements of one size that lie next to each other in a file, as the file's header
/// describes it. Whoever makes one has seen to it that all of it lies within `bytes`.
struct StoredArray {
  enum class Text {
    none,
    bytes,  ///< NumPy's S: padded with NULs
    ucs4,   ///< NumPy's U: code points of 4 bytes, padded with zeros
  };

  DType dtype = DType::other;
  std::string description;       ///< of the type, for messages: "float32"
  std::size_t element_size = 0;  ///< size_of(dtype), but for strings and other
  Text text = Text::none;
  bool swap_bytes = false;  ///< stored in the other byte order
  bool fortran = false;     ///< the first axis is the one whose elements are neighbours
  Shape shape;
  std::shared_ptr<const Bytes> bytes;
  Index offset = 0;  ///< of the first element in `bytes`
};

/// Elements times `element_size`. Throws Error(input) naming `what` where that does not fit an
/// Index, or where an axis is negative.
Index array_bytes(const Shape& shape, std::size_t element_size, const std::string& what);

/// The most axes an array may have: as many as HDF5 and NumPy 1 can do with.
constexpr std::size_t most_axes = 32;

}  // namespace attn::io
