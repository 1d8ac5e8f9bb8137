#include "io/hdf5/output_dataset.hpp"

#include <algorithm>
#include <cstring>

#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

namespace attn::io {
namespace {

h5::Handle memory_type(DType /*file*/, const float* /*data*/) {
  return h5::copied_type(H5T_NATIVE_FLOAT);
}
h5::Handle memory_type(DType /*file*/, const double* /*data*/) {
  return h5::copied_type(H5T_NATIVE_DOUBLE);
}
h5::Handle memory_type(DType /*file*/, const std::int64_t* /*data*/) {
  return h5::copied_type(H5T_NATIVE_INT64);
}
h5::Handle memory_type(DType file, const std::uint8_t* /*data*/) {
  // HDF5 does not convert integers to enumerations, so bool is written as raw bytes.
  return file == DType::boolean ? h5::file_type(DType::boolean) : h5::copied_type(H5T_NATIVE_UINT8);
}

/// Elements [offset, offset + size) of a row-major block whose rows of `row` elements are
/// `row_stride` apart in `data`.
template <class T>
void pack(const T* data, Index row, Index row_stride, Index offset, Index size, T* packed) {
  for (Index done = 0; done < size;) {
    const Index at = offset + done;
    const Index length = std::min(row - at % row, size - done);
    std::memcpy(packed + done, data + at / row * row_stride + at % row,
                static_cast<std::size_t>(length) * sizeof(T));
    done += length;
  }
}

}  // namespace

void Hdf5OutputDataset::write_as(const Shape& start, const Shape& count, hid_t type,
                                 const void* data) const {
  file_->require_open();
  const hid_t dataset = handle_->get();
  const std::vector<hsize_t> extents(count.begin(), count.end());
  const h5::Handle space = h5::made(H5Dget_space(dataset), H5Sclose, "dataspace");
  h5::select(space.get(), {start.begin(), start.end()}, std::vector<hsize_t>(start.size(), 1),
             extents);
  const h5::Handle memory = h5::dataspace(extents);
  const h5::Unwatched writing;
  file_->check(H5Dwrite(dataset, type, memory.get(), space.get(), H5P_DEFAULT, data),
               file_->address_of(name_));
}

template <class T>
void Hdf5OutputDataset::write_contiguous(const Shape& start, const Shape& count,
                                         const T* data) const {
  const h5::Lock lock;
  write_as(start, count, memory_type(dtype_, data).get(), data);
}

template <class T>
void Hdf5OutputDataset::write_block(const Shape& start, const Shape& count, const T* data,
                                    Index row_stride) const {
  require_block(start, count, shape_, file_->address_of(name_));
  const Index total = element_count(count);
  if (total == 0 || !holds_numbers_) return;
  const Index row = count.empty() ? 1 : count.back();
  if (row_stride == 0 || row_stride == row || total == row) {
    return write_contiguous(start, count, data);
  }
  // Packed here: HDF5 would write each row separately.
  const Index limit = piece_elements(sizeof(T));
  const Buffer<T> packed(std::min(limit, total));
  for_each_piece(count, limit, [&](const Piece& piece) {
    pack(data, row, row_stride, piece.offset, piece.size, packed.data());
    Shape at = start;
    for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += piece.start[axis];
    write_contiguous(at, piece.count, packed.data());
  });
}

void Hdf5OutputDataset::write(const Shape& start, const Shape& count, const float* data,
                              Index row_stride) {
  write_block(start, count, data, row_stride);
}
void Hdf5OutputDataset::write(const Shape& start, const Shape& count, const double* data,
                              Index row_stride) {
  write_block(start, count, data, row_stride);
}
void Hdf5OutputDataset::write(const Shape& start, const Shape& count, const std::uint8_t* data,
                              Index row_stride) {
  write_block(start, count, data, row_stride);
}
void Hdf5OutputDataset::write(const Shape& start, const Shape& count, const std::int64_t* data,
                              Index row_stride) {
  write_block(start, count, data, row_stride);
}

void Hdf5OutputDataset::write_stored(const Shape& start, const Shape& count, const void* data) {
  require_block(start, count, shape_, file_->address_of(name_));
  if (element_count(count) == 0 || !holds_numbers_) return;
  const h5::Lock lock;
  write_as(start, count, h5::memory_type(dtype_).get(), data);
}

}  // namespace attn::io
