#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/hdf5/h5.hpp"
#include "io/hdf5/output_file.hpp"

namespace attn::io {

/// A dataset that was copied, and that has dimension scales attached where it comes from.
struct ScaledDataset {
  h5::Handle source;
  std::string path;  ///< of the copy
};

/// Whether dimension scales (HDF5's, and with them netCDF's, axes with values) are attached to it.
bool has_scales(hid_t dataset);

/// Attaches to each copy the copies of its scales, as far as those were copied too. The attributes
/// that say so consist of references, which are not copied. `copied` leads from an object's
/// identity to its copy's path. Called under h5::Lock.
void attach_scales(const std::vector<ScaledDataset>& datasets,
                   const std::map<std::string, std::string>& copied, OutputFile& output);

}  // namespace attn::io
