#pragma once

#include <memory>
#include <string>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// What every .npy begins with.
inline constexpr char npy_magic[] = "\x93NUMPY";
inline constexpr std::size_t npy_magic_size = 6;

/// Reads the header of an .npy (versions 1.0, 2.0 and 3.0 of NumPy's format). Numbers, bool and
/// strings (U, S) in both orders of bytes and axes. Throws Error(input) naming `address`: not an
/// .npy, a malformed header, a dtype other than these (pickled objects, structures, complex
/// numbers, times), more or fewer bytes than the shape asks for.
/// Source: numpy.lib.format, "Format Version 1.0" to "3.0".
StoredArray read_npy_header(std::shared_ptr<const Bytes> bytes, const std::string& address);

/// The header, byte by byte, that numpy.save writes before a C-contiguous array on a
/// little-endian machine: version 1.0, padded so that the data begins at a multiple of 64.
/// float16, float32, float64, integers and bool; std::invalid_argument for others.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace attn::io
