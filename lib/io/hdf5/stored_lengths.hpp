#pragma once

#include <string>

#include "io/hdf5/h5.hpp"

namespace attn::io::h5 {

/// Before an attribute of strings or sequences of variable length is read: throws Error(input)
/// naming `what`, "in.h5: attribute model", if its values claim more bytes than its file has. HDF5
/// itself would take the memory that a damaged length asks for. Does nothing for other types.
void require_stored_lengths(hid_t attribute, const std::string& what);

}  // namespace attn::io::h5
