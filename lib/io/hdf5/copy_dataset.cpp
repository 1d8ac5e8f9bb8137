#include "io/hdf5/copy_dataset.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "io/hdf5/dataset_creation.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/hdf5/output_attribute.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

namespace attn::io {
namespace {

h5::Handle type_of(hid_t dataset) {
  const h5::Handle stored = h5::made(H5Dget_type(dataset), H5Tclose, "datatype");
  // A copy, since a committed type belongs to its file.
  return h5::copied_type(stored.get());
}

/// A chunk's bytes can be written whether or not its filters are available, but HDF5 creates a
/// dataset with a missing filter only if that filter is optional.
void allow_missing_filters(hid_t creation) {
  const int filters = H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::vector<unsigned> values(64);
    std::size_t count = values.size();
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &count,
                                               values.data(), 0, nullptr, &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    h5::require(H5Pmodify_filter(creation, filter, flags | H5Z_FLAG_OPTIONAL,
                                 std::min(count, values.size()), values.data()),
                "properties");
  }
}

h5::Handle creation_like(hid_t source) {
  h5::Handle creation = h5::made(H5Dget_create_plist(source), H5Pclose, "properties");
  // Data stored in other files is copied into this one.
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL || H5Pget_external_count(creation.get()) > 0) {
    creation = h5::properties(H5P_DATASET_CREATE);
  }
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
    allow_missing_filters(creation.get());
    h5::require(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_INCR), "properties");
  }
  return creation;
}

/// Copies blocks of elements; `read` fills a buffer with one.
void copy_blocks(const Shape& shape, hid_t type,
                 const std::function<void(const Piece&, void*)>& read, OutputFile& output,
                 hid_t dataset, const std::string& path) {
  const std::size_t size = H5Tget_size(type);
  const Index limit = piece_elements(size);
  const Buffer<char> buffer(std::min(limit, element_count(shape)) * static_cast<Index>(size));
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const bool pointers = h5::holds_pointers(type);
  for_each_piece(shape, limit, [&](const Piece& piece) {
    read(piece, buffer.data());
    const std::vector<hsize_t> start(piece.start.begin(), piece.start.end());
    const std::vector<hsize_t> count(piece.count.begin(), piece.count.end());
    h5::select(space.get(), start, std::vector<hsize_t>(start.size(), 1), count);
    const h5::Handle memory = h5::dataspace(count);
    const h5::Unwatched writing;
    output.check(H5Dwrite(dataset, type, memory.get(), space.get(), H5P_DEFAULT, buffer.data()),
                 output.address_of(path));
    if (pointers) H5Dvlen_reclaim(type, memory.get(), H5P_DEFAULT, buffer.data());
  });
}

struct Extent {
  Shape shape;
  bool is_null = false;
};

Extent extent_of(hid_t dataset) {
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return {{}, true};
  std::vector<hsize_t> axes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
  h5::require(H5Sget_simple_extent_dims(space.get(), axes.data(), nullptr), "dataspace");
  return {Shape(axes.begin(), axes.end()), false};
}

void copy_all_blocks(const OpenDataset& source, OutputFile& output, hid_t dataset, hid_t type,
                     const std::string& path) {
  const h5::Handle space = h5::made(H5Dget_space(source.handle()), H5Sclose, "dataspace");
  const auto read = [&](const Piece& piece, void* out) {
    const std::vector<hsize_t> count(piece.count.begin(), piece.count.end());
    h5::select(space.get(), {piece.start.begin(), piece.start.end()},
               std::vector<hsize_t>(count.size(), 1), count);
    // Closed only after the reason of a failure has been read, which any other call clears.
    const h5::Handle memory = h5::dataspace(count);
    source.read(type, memory.get(), space.get(), out);
  };
  copy_blocks(extent_of(source.handle()).shape, type, read, output, dataset, path);
}

/// The size in bytes of a chunk in the file, 0 if it was never written.
hsize_t stored_size(hid_t source, const std::string& address, const std::vector<hsize_t>& offset) {
  const h5::Quiet quiet;
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(source, offset.data(), &size) >= 0) return size;
  // The call fails for chunks that do not exist. The query that distinguishes these from a damaged
  // index takes time proportional to the number of chunks, so it is made only if needed.
  const h5::Reason why = h5::last_reason();
  if (why.text == "chunk storage is not allocated") return 0;
  unsigned filters = 0;
  haddr_t place = HADDR_UNDEF;
  if (H5Dget_chunk_info_by_coord(source, offset.data(), &filters, &place, &size) < 0) {
    refuse_unread(source, address, why);
  }
  return place == HADDR_UNDEF ? 0 : size;
}

/// Copies chunks as stored, compressed or not; chunks that were never written stay unwritten.
void copy_chunks(hid_t source, const std::string& address, OutputFile& output, hid_t dataset,
                 hid_t creation, const std::string& path) {
  const Shape shape = extent_of(source).shape;
  std::vector<hsize_t> chunk(shape.size());
  h5::require(H5Pget_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), "properties");
  Shape grid;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto length = static_cast<Index>(chunk[axis]);
    grid.push_back((shape[axis] + length - 1) / length);
  }
  std::vector<hsize_t> offset(shape.size());
  std::vector<char> bytes;
  for (Index at = 0; at < element_count(grid); ++at) {
    const Shape position = unravel(at, grid);
    for (std::size_t axis = 0; axis < offset.size(); ++axis) {
      offset[axis] = static_cast<hsize_t>(position[axis]) * chunk[axis];
    }
    h5::beat();
    const hsize_t size = stored_size(source, address, offset);
    if (size == 0) continue;
    std::uint32_t filters = 0;
    bytes.resize(std::max<std::size_t>(bytes.size(), size));
    if (H5Dread_chunk(source, H5P_DEFAULT, offset.data(), &filters, bytes.data()) < 0) {
      refuse_unread(source, address, h5::last_reason());
    }
    const h5::Unwatched writing;
    output.check(H5Dwrite_chunk(dataset, H5P_DEFAULT, filters, offset.data(), size, bytes.data()),
                 output.address_of(path));
  }
}

void copy_content(const OpenDataset& source, OutputFile& output, hid_t dataset, hid_t type,
                  const std::string& path) {
  const h5::Handle creation =
      h5::made(H5Dget_create_plist(source.handle()), H5Pclose, "properties");
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  const bool here = (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0) ||
                    layout == H5D_CHUNKED;
  // Elements that were never written have the fill value in both files.
  if (here && H5Dget_storage_size(source.handle()) == 0) return;
  // References denote addresses in their own file.
  if (H5Tdetect_class(type, H5T_REFERENCE) > 0 && H5Tget_class(type) != H5T_COMPOUND) return;
  if (layout == H5D_CHUNKED && !h5::holds_pointers(type)) {
    copy_chunks(source.handle(), source.address(), output, dataset, creation.get(), path);
  } else {
    copy_all_blocks(source, output, dataset, type, path);
  }
}

/// Whether HDF5 uses the attribute to describe axes; a slice has other axes.
bool tells_of_axes(const std::string& attribute, bool is_scale) {
  for (const char* one : {"DIMENSION_LABELS", "DIMENSION_LIST", "REFERENCE_LIST"}) {
    if (attribute == one) return true;
  }
  return is_scale && (attribute == "CLASS" || attribute == "NAME");
}

/// The label of one axis, empty if it has none.
std::string label_of(hid_t dataset, std::size_t axis) {
  const ssize_t length = H5DSget_label(dataset, static_cast<unsigned>(axis), nullptr, 0);
  if (length <= 0) return {};
  std::string label(static_cast<std::size_t>(length) + 1, '\0');
  H5DSget_label(dataset, static_cast<unsigned>(axis), label.data(), label.size());
  label.resize(static_cast<std::size_t>(length));
  return label;
}

void copy_labels(const Hdf5Dataset& source, OutputFile& output, hid_t dataset,
                 const std::string& path) {
  if (H5Aexists(source.handle(), "DIMENSION_LABELS") <= 0) return;
  std::vector<std::string> labels;
  for (const std::size_t axis : source.slab().source_axis) {
    labels.push_back(label_of(source.handle(), axis));
  }
  label_axes(output, dataset, path, labels);
}

}  // namespace

void copy_dataset(const OpenDataset& from, OutputFile& output, const CopyTarget& target) {
  const hid_t source = from.handle();
  const h5::Handle type = type_of(source);
  const h5::Handle creation = creation_like(source);
  const h5::Handle space = h5::made(H5Dget_space(source), H5Sclose, "dataspace");
  const h5::Handle link = link_properties();
  h5::Handle dataset = output.own(H5Dcreate2(target.group, target.name.c_str(), type.get(),
                                             space.get(), link.get(), creation.get(), H5P_DEFAULT),
                                  H5Dclose, output.address_of(target.path), from.address());
  if (!extent_of(source).is_null) {
    copy_content(from, output, dataset.get(), type.get(), target.path);
  }
  copy_attributes(source, from.address(), output, dataset.get(),
                  [](const std::string&) { return false; });
  output.close(dataset, output.address_of(target.path));
}

void copy_slice(const Hdf5Dataset& source, OutputFile& output, const std::string& path) {
  const h5::Handle type = type_of(source.handle());
  h5::Handle dataset = create_dataset(output, path, type.get(), source.shape, {});
  const auto read = [&](const Piece& piece, void* out) {
    source.read_raw(piece.start, piece.count, type.get(), out);
  };
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) <= 0) {
    copy_blocks(source.shape, type.get(), read, output, dataset.get(), path);
  }
  const bool is_scale = H5DSis_scale(source.handle()) > 0;
  copy_attributes(source.handle(), source.address, output, dataset.get(),
                  [&](const std::string& attribute) { return tells_of_axes(attribute, is_scale); });
  copy_labels(source, output, dataset.get(), path);
  output.close(dataset, output.address_of(path));
}

}  // namespace attn::io
