#pragma once

#include <memory>
#include <string>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// The first bytes of every .npy file.
inline constexpr char npy_magic[] = "\x93NUMPY";
inline constexpr std::size_t npy_magic_size = 6;

/// Reads the header of an .npy (versions 1.0, 2.0 and 3.0 of NumPy's format): numbers, bool and
/// strings (U, S), in either byte order and either axis order. Throws Error(input) naming `address`
/// if it is not an .npy, its header is malformed, its dtype is another one (pickled objects,
/// structures, complex numbers, times), or it has more or fewer bytes than its shape needs.
/// Source: numpy.lib.format, "Format Version 1.0" to "3.0".
StoredArray read_npy_header(std::shared_ptr<const Bytes> bytes, const std::string& address);

/// The header that numpy.save writes, byte for byte, before a C-contiguous array on a little-endian
/// machine: version 1.0, padded so that the data begins at a multiple of 64 bytes. Supports
/// float16, float32, float64, integers, bool, and strings of `width` characters (NumPy's U);
/// std::invalid_argument for other types.
std::string npy_header(DType dtype, const Shape& shape, Index width = 0);

}  // namespace attn::io
