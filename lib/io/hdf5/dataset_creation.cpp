#include "io/hdf5/dataset_creation.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <stdexcept>

#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/open_dataset.hpp"

namespace attn::io {
namespace {

std::vector<hsize_t> extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// HDF5 accepts neither chunks larger than the dataset nor chunks for a scalar or empty one.
std::vector<hsize_t> clamped_chunk(const Shape& shape, const Shape& chunk) {
  if (chunk.empty() || shape.empty() || element_count(shape) == 0) return {};
  if (chunk.size() != shape.size()) throw std::invalid_argument("chunk and shape differ in rank");
  std::vector<hsize_t> clamped;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    clamped.push_back(static_cast<hsize_t>(std::clamp<Index>(chunk[axis], 1, shape[axis])));
  }
  return clamped;
}

/// A chunk's size is known only once it is deflated, so space cannot be allocated early. The
/// unwritten part of an edge chunk must be zeros rather than arbitrary memory.
void add_deflate(hid_t properties, int level) {
  h5::require(H5Pset_shuffle(properties), "properties");
  h5::require(H5Pset_deflate(properties, static_cast<unsigned>(level)), "properties");
  h5::require(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_INCR), "properties");
  h5::require(H5Pset_fill_time(properties, H5D_FILL_TIME_ALLOC), "properties");
}

h5::Handle creation_properties(hid_t type, const std::vector<hsize_t>& chunk, int deflate) {
  h5::Handle properties = h5::properties(H5P_DATASET_CREATE);
  h5::require(H5Pset_obj_track_times(properties.get(), false), "properties");
  if (!chunk.empty()) {
    h5::require(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()),
                "properties");
  }
  if (deflate > 0) {
    add_deflate(properties.get(), deflate);
    return properties;
  }
  h5::require(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), "properties");
  // Types that hold pointers must be filled, or HDF5 would follow arbitrary ones.
  if (!h5::holds_pointers(type)) {
    h5::require(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), "properties");
  }
  return properties;
}

void require_name(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.back() == '/' || name == ".") {
    throw std::invalid_argument("'" + name + "' is not a valid name for a dataset");
  }
}

/// Each thread that writes weights works in its own strip of chunks; a chunk that leaves the cache
/// before it is complete is inflated and deflated once more.
constexpr std::size_t written_side_by_side = 16;

}  // namespace

h5::Handle create_dataset(OutputFile& output, const std::string& name, hid_t type,
                          const Shape& shape, const Storage& storage) {
  require_name(name);
  const std::size_t size = H5Tget_size(type);
  const bool worth = !h5::holds_pointers(type) && !shape.empty() &&
                     element_count(shape) >=
                         deflate_worth_bytes / static_cast<Index>(std::max<std::size_t>(size, 1));
  const int deflate = worth ? storage.deflate : 0;
  const bool chosen = deflate > 0 && storage.chunk.empty();
  const std::vector<hsize_t> chunks =
      clamped_chunk(shape, chosen ? deflate_chunk(shape, size) : storage.chunk);
  const h5::Handle creation = creation_properties(type, chunks, deflate);
  const h5::Handle access = cached_access(extents(shape), chunks, size, written_side_by_side);
  const h5::Handle link = link_properties();
  const h5::Handle space = h5::dataspace(extents(shape));
  make_room(output, name);
  return output.own(H5Dcreate2(output.root(), name.c_str(), type, space.get(), link.get(),
                               creation.get(), access.get()),
                    H5Dclose, output.address_of(name));
}

Shape deflate_chunk(const Shape& shape, std::size_t element_size) {
  constexpr std::size_t most_bytes = std::size_t{512} << 10;
  const auto limit = static_cast<Index>(std::max<std::size_t>(most_bytes / element_size, 1));
  Shape chunk(shape.size(), 1);
  Index inner = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (inner * shape[axis] > limit) {
      const Index run = std::max<Index>(limit / inner, 1);
      const Index chunks = (shape[axis] + run - 1) / run;
      chunk[axis] = (shape[axis] + chunks - 1) / chunks;
      break;
    }
    chunk[axis] = shape[axis];
    inner *= shape[axis];
  }
  return chunk;
}

void require_deflate(int level) {
  if (level == 0) return;
  const h5::Lock lock;
  if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0 && H5Zfilter_avail(H5Z_FILTER_SHUFFLE) > 0) return;
  throw Error(Failure::usage, "--compress: this HDF5 was built without gzip");
}

void make_room(OutputFile& output, const std::string& name) {
  if (!h5::linked(output.root(), name)) return;
  output.check(H5Ldelete(output.root(), name.c_str(), H5P_DEFAULT), output.address_of(name));
}

void create_group(OutputFile& output, const std::string& path) {
  if (h5::kind_of(output.root(), path) == h5::Kind::group) return;
  const h5::Handle creation = h5::properties(H5P_GROUP_CREATE);
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  h5::Handle group = output.own(
      H5Gcreate2(output.root(), path.c_str(), link_properties().get(), creation.get(), H5P_DEFAULT),
      H5Gclose, output.address_of(path));
  output.close(group, output.address_of(path));
}

h5::Handle link_properties() {
  h5::Handle properties = h5::properties(H5P_LINK_CREATE);
  h5::require(H5Pset_create_intermediate_group(properties.get(), 1), "properties");
  return properties;
}

void label_axes(OutputFile& output, hid_t dataset, const std::string& name,
                const std::vector<std::string>& labels) {
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  if (labels.size() > static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get()))) {
    throw std::invalid_argument(name + " has more labels than axes");
  }
  for (std::size_t axis = 0; axis < labels.size(); ++axis) {
    if (labels[axis].empty()) continue;
    output.check(H5DSset_label(dataset, static_cast<unsigned>(axis), labels[axis].c_str()),
                 output.address_of(name));
  }
}

}  // namespace attn::io
