#pragma once

#include <string>
#include <string_view>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// Sets the element type of `array` from NumPy's dtype string ('<f4', '|b1', '>i8', '<U5', and
/// '|V2' for bfloat16). Throws Error(input) naming `address` for a type that is not supported.
void read_npy_dtype(std::string_view descr, const std::string& address, StoredArray& array);

/// The inverse: NumPy's dtype string, such as "<f4". Accepts the types that npy_header accepts.
std::string npy_dtype(DType dtype);

}  // namespace attn::io
