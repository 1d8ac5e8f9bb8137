#pragma once

#include <string>

#include "io/hdf5/hdf5_dataset.hpp"
#include "io/hdf5/output_file.hpp"

namespace attn::io {

// Copying by reads and writes of our own, piece by piece, and not through H5Ocopy: that crashes
// (HDF5 1.10.8) where it meets a full disk or a damaged index, and cannot be stopped half-way.
// Both are called under h5::Lock, and throw Error(input) naming `source` or Error(output).

/// Where a copy goes.
struct CopyTarget {
  hid_t group;       ///< of the output
  std::string name;  ///< a path from there, where there is nothing; groups on the way are made
  std::string path;  ///< the same from the output's root, for messages
};

/// Copies a dataset with its type, layout, filters (compressed chunks as they are), fill value and
/// attributes. Values that lie in other files come into the output. References become null.
void copy_dataset(const OpenDataset& source, OutputFile& output, const CopyTarget& target);

/// Writes what a sliced dataset holds, in its own type, contiguous and uncompressed, with its
/// attributes and the labels of the axes that are left.
void copy_slice(const Hdf5Dataset& source, OutputFile& output, const std::string& path);

}  // namespace attn::io
