#pragma once

#include <string>

#include "io/hdf5/h5.hpp"
#include "tensor/dtype.hpp"

namespace attn::io::h5 {

/// How the elements of a stored datatype are told apart and read.
struct StoredType {
  DType dtype = DType::other;
  Handle memory;            ///< to read with: elements of size_of(dtype) bytes; none for other
  bool swap_bytes = false;  ///< elements come in the other byte order (float16 alone)
  std::string description;  ///< for messages: "float32", "a compound type"
};

/// float16 and bool are read as they are stored (bool: h5py's enumeration FALSE, TRUE, or a bit
/// field of one byte); other numbers in the machine's byte order; for strings `memory` is the
/// stored type itself.
StoredType stored_type(hid_t type);

/// The type of new datasets: little-endian, bool as h5py has it, strings of variable length in
/// UTF-8. Throws std::invalid_argument for types that are not written.
Handle file_type(DType type);

/// What elements of that type are in memory: those of InputDataset::read_stored.
Handle memory_type(DType type);

/// Strings of variable length in UTF-8.
Handle text_type();

/// Whether values of this type refer to other storage and must be reclaimed after reading.
bool holds_pointers(hid_t type);

/// What a string of fixed length holds, without its padding (NUL or space, as `type` says).
std::string unpadded(const char* data, hid_t type);

/// Selects every step-th element from `start`, `count` of them, along each axis.
void select(hid_t space, const std::vector<hsize_t>& start, const std::vector<hsize_t>& step,
            const std::vector<hsize_t>& count);

}  // namespace attn::io::h5
