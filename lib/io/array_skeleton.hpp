#pragma once

#include <map>
#include <string>

#include "io/arrays/array_file.hpp"
#include "io/hdf5/h5.hpp"

namespace attn::io {

/// A file of arrays without their elements.
struct ArraySkeleton {
  h5::Handle file;                           ///< an HDF5 file in memory
  std::map<std::string, std::string> paths;  ///< the names of its arrays, by path
  bool flat = false;                         ///< whether the file says nothing about groups
};

/// The groups and metadata (metadata_text) of a file of arrays, so that groups and attributes are
/// looked up in the same way for all formats. It has all groups, attributes and strings of the
/// metadata. For every array of `arrays` it has a dataset of the same path, without elements, with
/// the array's attributes. A file without metadata of this form, like the files of other programs,
/// is flat: its arrays stand at their array_paths(). Throws Error(input) naming `label` if the
/// metadata or the names of the arrays contradict each other.
ArraySkeleton array_skeleton(const ArrayFile& arrays, const std::string& label);

}  // namespace attn::io
