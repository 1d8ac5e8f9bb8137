#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "io/arrays/bytes.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// An array whose elements have one size and are contiguous in a file, as the file's header
/// describes it. The code that creates one has checked that all of it lies within `bytes`.
struct StoredArray {
  enum class Text {
    none,
    bytes,  ///< NumPy's S: padded with NULs
    ucs4,   ///< NumPy's U: code points of 4 bytes, padded with zeros
  };

  DType dtype = DType::other;
  std::string description;       ///< of the type, for messages: "float32"
  std::size_t element_size = 0;  ///< size_of(dtype), except for strings and `other`
  Text text = Text::none;
  bool swap_bytes = false;  ///< stored in the other byte order
  bool fortran = false;     ///< column-major: the first axis varies fastest
  Shape shape;
  std::shared_ptr<const Bytes> bytes;
  Index offset = 0;  ///< of the first element in `bytes`
};

/// The number of elements times `element_size`. Throws Error(input) naming `what` if the product
/// does not fit an Index or an axis is negative.
Index array_bytes(const Shape& shape, std::size_t element_size, const std::string& what);

}  // namespace attn::io
