#pragma once

#include <functional>
#include <string>

#include "io/hdf5/h5.hpp"

namespace attn::io::h5 {

/// Call before reading `count` strings or sequences of variable length, of type `type`, from the
/// file of `object`. Throws Error(input) naming `what`, "in.h5: attribute model", if they claim
/// more bytes than the file has; HDF5 itself would allocate the memory that a damaged length
/// requests. Does nothing for other types. `read` reads the elements as another type into the given
/// memory, and returns whether that worked.
void require_stored_lengths(hid_t object, hid_t type, std::size_t count,
                            const std::function<bool(hid_t type, void* memory)>& read,
                            const std::string& what);

/// The same before an attribute is read.
void require_stored_lengths(hid_t attribute, const std::string& what);

}  // namespace attn::io::h5
