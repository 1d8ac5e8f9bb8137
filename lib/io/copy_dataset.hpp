#pragma once

#include <string>

#include "io/hdf5_dataset.hpp"
#include "io/output_file.hpp"

namespace attn::io {

// Copying by reads and writes of our own, piece by piece, and not through H5Ocopy: that crashes
// (HDF5 1.10.8) where it meets a full disk or a damaged index, and cannot be stopped half-way.
// Both are called under h5::Lock, and throw Error(input) naming `source` or Error(output).

/// Copies a dataset with its type, layout, filters (compressed chunks as they are), fill value and
/// attributes to `path` under the output's root, where there is nothing. References become null.
void copy_dataset(hid_t source, const std::string& address, OutputFile& output,
                  const std::string& path);

/// Writes what a sliced dataset holds, in its own type, contiguous and uncompressed, with its
/// attributes and the labels of the axes that are left.
void copy_slice(const Hdf5Dataset& source, OutputFile& output, const std::string& path);

}  // namespace attn::io
