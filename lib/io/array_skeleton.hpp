#pragma once

#include <memory>
#include <string>

#include "io/arrays/array_file.hpp"
#include "io/hdf5/h5.hpp"

namespace attn::io {

/// The metadata of a file of arrays (metadata_text) as an HDF5 file in memory, so that groups and
/// attributes are looked up in the same way for all formats. It has all groups, attributes and
/// strings of the metadata. For every array of `arrays` it has a dataset of the same path, without
/// elements, with the array's attributes. Empty if the file has no metadata of this form, like
/// files of other programs. Throws Error(input) naming `label` if the metadata or the names of the
/// arrays contradict each other.
h5::Handle array_skeleton(const ArrayFile& arrays, const std::string& label);

}  // namespace attn::io
