#include "io/arrays/stored_array.hpp"

#include "attnkit/error.hpp"

namespace attn::io {

Index array_bytes(const Shape& shape, std::size_t element_size, const std::string& what) {
  Index bytes = static_cast<Index>(element_size);
  bool empty = false;
  for (const Index axis : shape) {
    if (axis < 0) {
      throw Error(Failure::input, what + " has shape " + to_string(shape) + ", a negative length");
    }
    empty = empty || axis == 0;
  }
  if (empty) return 0;
  for (const Index axis : shape) {
    if (__builtin_mul_overflow(bytes, axis, &bytes)) {
      throw Error(Failure::input, what + " has shape " + to_string(shape) + ", too many elements");
    }
  }
  return bytes;
}

}  // namespace attn::io
