#pragma once

#include <string>
#include <string_view>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// Fills in what NumPy's dtype string ('<f4', '|b1', '>i8', '<U5') says of the elements. Throws
/// Error(input) naming `address` for a type that is not read.
void read_npy_dtype(std::string_view descr, const std::string& address, StoredArray& array);

/// The other way: "<f4". For the types that npy_header takes.
std::string npy_dtype(DType dtype);

}  // namespace attn::io
