#pragma once

#include <string>

#include "io/hdf5/hdf5_dataset.hpp"
#include "io/hdf5/output_file.hpp"

namespace attn::io {

// Datasets are copied by our own reads and writes, piece by piece, rather than by H5Ocopy, which
// crashes (HDF5 1.10.8) on a full disk or a damaged index and cannot be interrupted.
// Both functions are called under h5::Lock, and throw Error(input), which names
// `source`, or Error(output).

/// The destination of a copy.
struct CopyTarget {
  hid_t group;       ///< of the output
  std::string name;  ///< a free path from there; missing groups on the way are created
  std::string path;  ///< the same from the output's root, for messages
};

/// Copies a dataset with its type, layout, filters (compressed chunks unchanged), fill value and
/// attributes. Values stored in other files are copied into the output. References become null.
void copy_dataset(const OpenDataset& source, OutputFile& output, const CopyTarget& target);

/// Writes the elements of a sliced dataset in their own type, contiguous and uncompressed, with the
/// dataset's attributes and the labels of the remaining axes.
void copy_slice(const Hdf5Dataset& source, OutputFile& output, const std::string& path);

}  // namespace attn::io
