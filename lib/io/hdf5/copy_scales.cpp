#include "io/hdf5/copy_scales.hpp"

#include <hdf5_hl.h>

namespace attn::io {
namespace {

constexpr const char* list_attribute = "DIMENSION_LIST";

herr_t add_identity(hid_t, unsigned, hid_t scale, void* data) {
  try {
    static_cast<std::vector<std::string>*>(data)->push_back(h5::identity(scale));
    return 0;
  } catch (...) {
    return -1;  // an exception must not pass through C code
  }
}

/// Identities of the scales of one axis; scales that no longer exist are left out.
std::vector<std::string> scales_of(hid_t dataset, unsigned axis) {
  const h5::Quiet quiet;
  std::vector<std::string> found;
  H5DSiterate_scales(dataset, axis, nullptr, add_identity, &found);
  return found;
}

unsigned rank_of(hid_t dataset) {
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  return rank < 0 ? 0 : static_cast<unsigned>(rank);
}

h5::Handle open_copy(OutputFile& output, const std::string& path) {
  return output.own(H5Dopen2(output.root(), path.c_str(), H5P_DEFAULT), H5Dclose,
                    output.address_of(path));
}

}  // namespace

bool has_scales(hid_t dataset) {
  return H5Iget_type(dataset) == H5I_DATASET && H5Aexists(dataset, list_attribute) > 0;
}

void attach_scales(const std::vector<ScaledDataset>& datasets,
                   const std::map<std::string, std::string>& copied, OutputFile& output) {
  for (const ScaledDataset& dataset : datasets) {
    for (unsigned axis = 0; axis < rank_of(dataset.source.get()); ++axis) {
      for (const std::string& identity : scales_of(dataset.source.get(), axis)) {
        const auto found = copied.find(identity);
        if (found == copied.end()) continue;
        const h5::Handle copy = open_copy(output, dataset.path);
        const h5::Handle scale = open_copy(output, found->second);
        output.check(H5DSattach_scale(copy.get(), scale.get(), axis),
                     output.address_of(dataset.path));
      }
    }
  }
}

}  // namespace attn::io
