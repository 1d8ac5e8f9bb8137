#include "io/hdf5_dataset.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "io/h5_watch.hpp"
#include "io/pieces.hpp"
#include "tensor/buffer.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

Shape shape_of(hid_t dataset, const std::string& address) {
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
    throw Error(Failure::input, address + " has no values (its dataspace is null)");
  }
  Shape shape;
  for (const hsize_t extent : h5::extents_of(space.get()))
    shape.push_back(static_cast<Index>(extent));
  return shape;
}

void swap_bytes(std::uint16_t* values, Index count) {
  for (Index i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint16_t>(values[i] << 8 | values[i] >> 8);
  }
}

constexpr std::size_t most_cached = std::size_t{32} << 20;

struct Chunks {
  std::vector<hsize_t> shape;  // no axes: the dataset has no chunks
  std::size_t element_size = 0;
  std::size_t bytes = 0;  // of one
  bool filtered = false;
};

Chunks chunks_of(hid_t dataset) {
  Chunks chunks;
  const h5::Handle creation = h5::made(H5Dget_create_plist(dataset), H5Pclose, "properties");
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return chunks;
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  const h5::Handle type = h5::made(H5Dget_type(dataset), H5Tclose, "datatype");
  chunks.shape = h5::extents_of(space.get());
  H5Pget_chunk(creation.get(), static_cast<int>(chunks.shape.size()), chunks.shape.data());
  chunks.element_size = H5Tget_size(type.get());
  chunks.bytes = chunks.element_size;
  for (const hsize_t extent : chunks.shape) chunks.bytes *= extent;
  chunks.filtered = H5Pget_nfilters(creation.get()) > 0;
  return chunks;
}

/// "32015 (zstd)" for the first filter that this HDF5 has not got; empty where it has all.
std::string missing_filter(hid_t dataset) {
  const h5::Handle creation = h5::made(H5Dget_create_plist(dataset), H5Pclose, "properties");
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, name.size(), name.data(), &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    name.back() = '\0';
    return std::to_string(filter) + (name[0] == '\0' ? "" : " (" + std::string(name.data()) + ")");
  }
  return {};
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(std::shared_ptr<const InputFile> file, h5::Handle handle,
                         std::string dataset_name, std::string address_text,
                         const std::vector<SliceItem>& selection)
    : file_(std::move(file)), handle_(std::move(handle)), sliced_(!selection.empty()) {
  const h5::Lock lock;
  name = std::move(dataset_name);
  address = std::move(address_text);
  const h5::Handle type = h5::made(H5Dget_type(handle_.get()), H5Tclose, "datatype");
  type_ = h5::stored_type(type.get());
  dtype = type_.dtype;
  description = type_.description;
  slab_ = resolve(selection, shape_of(handle_.get(), address), address);
  shape = slab_.shape;
}

Hdf5Dataset::~Hdf5Dataset() = default;

Hdf5Dataset::Selection Hdf5Dataset::select(const Shape& start, const Shape& count) const {
  Selection selection{h5::made(H5Dget_space(handle_.get()), H5Sclose, "dataspace"), {}, {}, {}};
  std::vector<hsize_t> first(slab_.start.begin(), slab_.start.end());
  std::vector<hsize_t> step(slab_.step.begin(), slab_.step.end());
  selection.count.assign(first.size(), 1);
  for (std::size_t axis = 0; axis < start.size(); ++axis) {
    const std::size_t source = slab_.source_axis[axis];
    first[source] += static_cast<hsize_t>(start[axis] * slab_.step[source]);
    selection.count[source] = static_cast<hsize_t>(count[axis]);
  }
  for (std::size_t axis = 0; axis < step.size(); ++axis) {
    // With one element there is nothing to step over, and HDF5 would refuse a step that overflows.
    if (selection.count[axis] == 1) step[axis] = 1;
  }
  h5::select(selection.space.get(), first, step, selection.count);
  selection.first.assign(first.begin(), first.end());
  selection.step.assign(step.begin(), step.end());
  return selection;
}

Parts Hdf5Dataset::parts_of(const Selection& selection, std::size_t element_size) const {
  if (!chunks_) {
    const Chunks chunks = chunks_of(handle_.get());
    chunks_ = ReadChunks{{chunks.shape.begin(), chunks.shape.end()},
                         chunks.filtered ? static_cast<Index>(chunks.bytes) : 0};
  }
  Parts parts;
  parts.first = selection.first;
  parts.step = selection.step;
  parts.chunk = chunks_->shape;
  parts.packed_chunk_bytes = chunks_->packed_bytes;
  parts.element_size = static_cast<Index>(element_size);
  return parts;
}

void Hdf5Dataset::read_raw(const Shape& start, const Shape& count, hid_t memory_type,
                           void* out) const {
  const h5::Lock lock;
  h5::set_subject(address);
  const Selection selection = select(start, count);
  // Of the same rank as the file's: otherwise HDF5 goes through chunks element by element.
  const h5::Handle memory = h5::dataspace(selection.count);
  const Parts parts = parts_of(selection, H5Tget_size(memory_type));
  const Shape whole(selection.count.begin(), selection.count.end());
  for_each_part(parts, whole, [&](const Part& part) {
    if (part.count != whole) {
      const std::vector<hsize_t> ones(whole.size(), 1);
      const std::vector<hsize_t> extents(part.count.begin(), part.count.end());
      h5::select(memory.get(), {part.start.begin(), part.start.end()}, ones, extents);
      std::vector<hsize_t> first(part.start.size());
      for (std::size_t axis = 0; axis < first.size(); ++axis) {
        first[axis] = static_cast<hsize_t>(parts.first[axis] + part.start[axis] * parts.step[axis]);
      }
      h5::select(selection.space.get(), first, {parts.step.begin(), parts.step.end()}, extents);
    }
    const h5::Allowance unpacking(part.packed_bytes);
    if (H5Dread(handle_.get(), memory_type, memory.get(), selection.space.get(), H5P_DEFAULT, out) <
        0) {
      refuse_unread(handle_.get(), address, h5::last_reason());
    }
  });
}

void Hdf5Dataset::read_stored(const Shape& start, const Shape& count, void* out) const {
  read_raw(start, count, type_.memory.get(), out);
  if (type_.swap_bytes) swap_bytes(static_cast<std::uint16_t*>(out), element_count(count));
}

void refuse_unread(hid_t dataset, const std::string& address, const h5::Reason& why) {
  const std::string filter = missing_filter(dataset);
  if (!filter.empty()) {
    throw Error(Failure::input,
                address + " is compressed with filter " + filter + ", which this HDF5 has not got",
                "set HDF5_PLUGIN_PATH to where the filter's plugin is");
  }
  throw Error(Failure::input, address + " cannot be read: " + why.text);
}

std::vector<std::string> Hdf5Dataset::read_strings() const {
  const h5::Lock lock;
  h5::set_subject(address);
  return H5Tis_variable_str(type_.memory.get()) > 0 ? variable_strings() : fixed_strings();
}

std::vector<std::string> Hdf5Dataset::fixed_strings() const {
  const std::size_t size = H5Tget_size(type_.memory.get());
  const Index total = element_count(shape);
  const Buffer<char> buffer(total * static_cast<Index>(size));
  read_raw(Shape(shape.size(), 0), shape, type_.memory.get(), buffer.data());
  std::vector<std::string> values;
  for (Index i = 0; i < total; ++i) {
    values.push_back(
        h5::unpadded(buffer.data() + i * static_cast<Index>(size), type_.memory.get()));
  }
  return values;
}

std::vector<std::string> Hdf5Dataset::variable_strings() const {
  constexpr Index most_at_once = 1 << 16;
  std::vector<std::string> values;
  for_each_piece(shape, most_at_once, [&](const Piece& piece) {
    std::vector<char*> pointers(static_cast<std::size_t>(piece.size), nullptr);
    read_raw(piece.start, piece.count, type_.memory.get(), pointers.data());
    for (const char* pointer : pointers) values.emplace_back(pointer == nullptr ? "" : pointer);
    const h5::Handle space = h5::dataspace({pointers.size()});
    H5Dvlen_reclaim(type_.memory.get(), space.get(), H5P_DEFAULT, pointers.data());
  });
  return values;
}

std::int64_t Hdf5Dataset::bytes_at_once() const {
  const h5::Lock lock;
  const Chunks chunks = chunks_of(handle_.get());
  return chunks.filtered ? static_cast<std::int64_t>(chunks.bytes) : 0;
}

h5::Handle cached_access(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& chunk,
                         std::size_t element_size, std::size_t strips) {
  h5::Handle access = h5::properties(H5P_DATASET_ACCESS);
  if (chunk.empty()) return access;
  constexpr std::size_t least = std::size_t{1} << 20;
  std::size_t bytes = element_size;
  for (const hsize_t extent : chunk) bytes *= extent;
  const std::size_t across = (shape.back() + chunk.back() - 1) / chunk.back();
  const std::size_t held = std::max<std::size_t>(across * strips, 1);
  const std::size_t cache =
      std::max({least, bytes, bytes > most_cached / held ? most_cached : bytes * held});
  // HDF5 asks for a prime about a hundred times the number of chunks that fit.
  const std::size_t slots = cache / std::max<std::size_t>(bytes, 1) < 100 ? 10007 : 100003;
  // 1: a chunk that is complete always goes before one that is not.
  h5::require(H5Pset_chunk_cache(access.get(), slots, cache, 1.0), "properties");
  return access;
}

h5::Handle open_dataset(hid_t location, const std::string& path) {
  h5::Handle plain(H5Dopen2(location, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!plain) return plain;
  const Chunks chunks = chunks_of(plain.get());
  if (chunks.shape.empty() || (!chunks.filtered && chunks.bytes > most_cached)) return plain;
  const h5::Handle space = h5::made(H5Dget_space(plain.get()), H5Sclose, "dataspace");
  const h5::Handle access =
      cached_access(h5::extents_of(space.get()), chunks.shape, chunks.element_size, 1);
  // The cache is fixed by the first opening that is still there.
  plain.reset();
  return h5::Handle(H5Dopen2(location, path.c_str(), access.get()), H5Dclose);
}

}  // namespace attn::io
