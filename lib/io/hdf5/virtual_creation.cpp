#include "io/hdf5/virtual_creation.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "io/hdf5/dataset_creation.hpp"
#include "io/hdf5/h5_type.hpp"

namespace attn::io {
namespace {

std::vector<hsize_t> lengths(const Shape& shape) { return {shape.begin(), shape.end()}; }

// In the names of sources HDF5 replaces %b by the number of a block.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

h5::Handle selection(const Shape& shape, const Shape& start, const Shape& count) {
  h5::Handle space = h5::dataspace(lengths(shape));
  h5::select(space.get(), lengths(start), std::vector<hsize_t>(start.size(), 1), lengths(count));
  return space;
}

void set_hole(hid_t creation, DType type) {
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  h5::require(type == DType::i64 ? H5Pset_fill_value(creation, H5T_NATIVE_INT64, &least)
                                 : H5Pset_fill_value(creation, H5T_NATIVE_DOUBLE, &no_number),
              "properties");
}

}  // namespace

h5::Handle create_virtual(OutputFile& output, const std::string& name, DType type,
                          const Shape& shape, const std::vector<VirtualBlock>& blocks) {
  const bool has_hole = type == DType::f32 || type == DType::f64 || type == DType::i64;
  if (!has_hole || shape.empty()) {
    throw std::invalid_argument("'" + name + "' cannot be virtual");
  }
  const h5::Handle creation = h5::properties(H5P_DATASET_CREATE);
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  set_hole(creation.get(), type);
  for (const VirtualBlock& block : blocks) {
    const h5::Handle here = selection(shape, block.start, block.count);
    const h5::Handle there = selection(block.shape, block.from_start, block.from_count);
    h5::require(H5Pset_virtual(creation.get(), here.get(), escaped(block.file).c_str(),
                               escaped(block.path).c_str(), there.get()),
                "properties");
  }
  const h5::Handle link = link_properties();
  const h5::Handle space = h5::dataspace(lengths(shape));
  make_room(output, name);
  return output.own(H5Dcreate2(output.root(), name.c_str(), h5::file_type(type).get(), space.get(),
                               link.get(), creation.get(), H5P_DEFAULT),
                    H5Dclose, output.address_of(name));
}

}  // namespace attn::io
