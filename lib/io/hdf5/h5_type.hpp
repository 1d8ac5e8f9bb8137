#pragma once

#include <string>

#include "io/hdf5/h5.hpp"
#include "tensor/dtype.hpp"

namespace attn::io::h5 {

/// How the elements of a stored datatype are identified and read.
struct StoredType {
  DType dtype = DType::other;
  Handle memory;            ///< to read with: elements of size_of(dtype) bytes; unset for `other`
  bool swap_bytes = false;  ///< elements of 16 bits come in the other byte order
  std::string description;  ///< for messages: "float32", "a compound type"
};

/// float16, bfloat16 (a float with its fields, or two opaque bytes with the tag bfloat16,
/// little-endian) and bool are read as stored (bool: h5py's enumeration FALSE, TRUE, or a one-byte
/// bit field); other numbers are read in the machine's byte order; for strings `memory` is the
/// stored type itself.
StoredType stored_type(hid_t type);

/// The type of new datasets: little-endian, bool as h5py stores it, variable-length UTF-8 strings.
/// Throws std::invalid_argument for types that are not written.
Handle file_type(DType type);

/// The in-memory type of such elements, as ArraySource::read_stored returns them.
Handle memory_type(DType type);

/// Variable-length UTF-8 strings.
Handle text_type();

/// Whether values of this type point to other memory, which must be reclaimed after reading.
bool holds_pointers(hid_t type);

/// The contents of a fixed-length string without its padding (NUL or space, as `type` says).
std::string unpadded(const char* data, hid_t type);

/// Selects `count` elements from `start`, `step` apart, along each axis.
void select(hid_t space, const std::vector<hsize_t>& start, const std::vector<hsize_t>& step,
            const std::vector<hsize_t>& count);

}  // namespace attn::io::h5
