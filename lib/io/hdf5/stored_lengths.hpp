#pragma once

#include <functional>
#include <string>

#include "io/hdf5/h5.hpp"

namespace attn::io::h5 {

/// Before strings or sequences of variable length are read, `count` of them of that type in the
/// file of `object`: throws Error(input) naming `what`, "in.h5: attribute model", if they claim
/// more bytes than the file has. HDF5 itself would take the memory that a damaged length asks for.
/// Does nothing for other types. `read` reads them as another type, of the given memory, and
/// returns whether that worked.
void require_stored_lengths(hid_t object, hid_t type, std::size_t count,
                            const std::function<bool(hid_t type, void* memory)>& read,
                            const std::string& what);

/// The same before an attribute is read.
void require_stored_lengths(hid_t attribute, const std::string& what);

}  // namespace attn::io::h5
