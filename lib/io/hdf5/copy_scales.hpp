#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/hdf5/h5.hpp"
#include "io/hdf5/output_file.hpp"

namespace attn::io {

/// A copied dataset whose original has dimension scales attached.
struct ScaledDataset {
  h5::Handle source;
  std::string path;  ///< of the copy
};

/// Whether dimension scales (axes with values, in HDF5 and netCDF) are attached to the dataset.
bool has_scales(hid_t dataset);

/// Attaches to each copy the copies of its scales, as far as the scales were copied, too. The
/// attributes that record the attachment consist of references, which are not copied. `copied` maps
/// an object's identity to the path of its copy. Called under h5::Lock.
void attach_scales(const std::vector<ScaledDataset>& datasets,
                   const std::map<std::string, std::string>& copied, OutputFile& output);

}  // namespace attn::io
