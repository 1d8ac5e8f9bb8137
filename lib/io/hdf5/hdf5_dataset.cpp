#include "io/hdf5/hdf5_dataset.hpp"

#include <cstdint>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

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

void require_written(const InputFile& file, const OpenDataset& dataset, const Shape& shape,
                     std::size_t element_size, const std::string& address) {
  double bytes = static_cast<double>(element_size);
  for (const Index extent : shape) bytes *= static_cast<double>(extent);
  if (file.never_written->allows(address, bytes, dataset.most_written())) return;
  throw Error(Failure::input,
              address + " has the shape " + to_string(shape) +
                  ", but nearly all values of its file were never written",
              "a selection of it can be read, and tensor-info --brief shows its shape");
}

void swap_bytes(std::uint16_t* values, Index count) {
  for (Index i = 0; i < count; ++i) {
    values[i] = static_cast<std::uint16_t>(values[i] << 8 | values[i] >> 8);
  }
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(std::shared_ptr<const InputFile> file, OpenDataset dataset,
                         std::string dataset_name, std::string address_text,
                         const std::vector<SliceItem>& selection)
    : file_(std::move(file)), dataset_(std::move(dataset)), sliced_(!selection.empty()) {
  const h5::Lock lock;
  name = std::move(dataset_name);
  address = std::move(address_text);
  const h5::Handle type = h5::made(H5Dget_type(dataset_.handle()), H5Tclose, "datatype");
  type_ = h5::stored_type(type.get());
  dtype = type_.dtype;
  description = type_.description;
  slab_ = resolve(selection, shape_of(dataset_.handle(), address), address);
  shape = slab_.shape;
  require_written(*file_, dataset_, shape, H5Tget_size(type.get()), address);
}

Hdf5Dataset::~Hdf5Dataset() = default;

bool Hdf5Dataset::stored_as_read() const {
  if (dtype == DType::string || dtype == DType::other) return false;
  const h5::Handle type = h5::made(H5Dget_type(dataset_.handle()), H5Tclose, "datatype");
  return H5Tequal(type.get(), type_.memory.get()) > 0;
}

Hdf5Dataset::Selection Hdf5Dataset::select(const Shape& start, const Shape& count) const {
  Selection selection{h5::made(H5Dget_space(dataset_.handle()), H5Sclose, "dataspace"), {}, {}, {}};
  std::vector<hsize_t> first(slab_.start.begin(), slab_.start.end());
  std::vector<hsize_t> step(slab_.step.begin(), slab_.step.end());
  selection.count.assign(first.size(), 1);
  for (std::size_t axis = 0; axis < start.size(); ++axis) {
    const std::size_t source = slab_.source_axis[axis];
    first[source] += static_cast<hsize_t>(start[axis] * slab_.step[source]);
    selection.count[source] = static_cast<hsize_t>(count[axis]);
  }
  for (std::size_t axis = 0; axis < step.size(); ++axis) {
    // A single element needs no step, and HDF5 would refuse a step that overflows.
    if (selection.count[axis] == 1) step[axis] = 1;
  }
  h5::select(selection.space.get(), first, step, selection.count);
  selection.first = Shape(first.begin(), first.end());
  selection.step = Shape(step.begin(), step.end());
  return selection;
}

void Hdf5Dataset::read_raw(const Shape& start, const Shape& count, hid_t memory_type,
                           void* out) const {
  const h5::Lock lock;
  h5::set_subject(address);
  const Selection selection = select(start, count);
  // Same rank as the file's dataspace: otherwise HDF5 reads chunks element by element.
  const h5::Handle memory = h5::dataspace(selection.count);
  const Shape& chunk = dataset_.chunk();
  const Parts parts{selection.first, selection.step, chunk,
                    static_cast<Index>(H5Tget_size(memory_type))};
  const Shape whole(selection.count.begin(), selection.count.end());
  for_each_part(parts, whole, [&](const Part& part) {
    if (part.count != whole) {
      const std::vector<hsize_t> ones(whole.size(), 1);
      const std::vector<hsize_t> extents(part.count.begin(), part.count.end());
      h5::select(memory.get(), {part.start.begin(), part.start.end()}, ones, extents);
      std::vector<hsize_t> first(part.start.size());
      for (std::size_t axis = 0; axis < first.size(); ++axis) {
        const Index at = parts.first[axis] + part.start[axis] * parts.step[axis];
        first[axis] = static_cast<hsize_t>(at);
      }
      h5::select(selection.space.get(), first, {parts.step.begin(), parts.step.end()}, extents);
    }
    dataset_.read(memory_type, memory.get(), selection.space.get(), out);
  });
}

void Hdf5Dataset::read_stored(const Shape& start, const Shape& count, void* out) const {
  read_raw(start, count, type_.memory.get(), out);
  if (type_.swap_bytes) swap_bytes(static_cast<std::uint16_t*>(out), element_count(count));
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
  return dataset_.bytes_at_once();
}

}  // namespace attn::io
