#include "io/direct_dataset.hpp"

#include <utility>

namespace attn::io {

DirectDataset::DirectDataset(std::shared_ptr<const InputFile> file, OpenDataset dataset,
                             std::string dataset_name, std::string address_text,
                             const std::vector<SliceItem>& selection)
    : Hdf5Dataset(std::move(file), std::move(dataset), std::move(dataset_name),
                  std::move(address_text), selection) {
  const h5::Lock lock;
  const OpenDataset::Place& place = stored().place();
  if (!place.bytes || !stored_as_read()) return;
  StoredArray array;
  array.dtype = dtype;
  array.element_size = size_of(dtype);
  array.swap_bytes = swapped();
  array.shape = place.shape;
  array.bytes = place.bytes;
  array.offset = place.offset;
  array_ = std::make_unique<const ArrayDataset>(std::move(array), name, address, selection);
}

void DirectDataset::read_stored(const Shape& start, const Shape& count, void* out) const {
  array_ ? array_->read_stored(start, count, out) : Hdf5Dataset::read_stored(start, count, out);
}

}  // namespace attn::io
