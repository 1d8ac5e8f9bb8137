#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/address.hpp"
#include "io/arrays/stored_array.hpp"
#include "tensor/array_source.hpp"

namespace attn::io {

/// An array of an .npy, .npz or .safetensors file, or a slice of it.
class ArrayDataset : public ArraySource::Impl {
 public:
  /// Throws Error(input) if the selection does not fit the array.
  ArrayDataset(StoredArray array, std::string dataset_name, std::string address_text,
               const std::vector<SliceItem>& selection);

  void read_stored(const Shape& start, const Shape& count, void* out) const override;
  std::vector<std::string> read_strings() const override;

 private:
  void read_elements(const Shape& start, const Shape& count, void* out) const;

  StoredArray array_;
  Hyperslab slab_;
  Shape strides_;  ///< in the file, bytes
};

}  // namespace attn::io
