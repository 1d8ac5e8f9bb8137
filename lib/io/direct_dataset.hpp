#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/arrays/array_dataset.hpp"
#include "io/hdf5/hdf5_dataset.hpp"

namespace attn::io {

/// A dataset of an HDF5 file. Numbers that are stored in one piece, in the format of memory, are
/// read like those of an .npy: without a turn in HDF5 and without a buffer.
class DirectDataset : public Hdf5Dataset {
 public:
  /// The arguments of Hdf5Dataset.
  DirectDataset(std::shared_ptr<const InputFile> file, OpenDataset dataset,
                std::string dataset_name, std::string address_text,
                const std::vector<SliceItem>& selection);

  void read_stored(const Shape& start, const Shape& count, void* out) const override;

 private:
  std::unique_ptr<const ArrayDataset> array_;  ///< null: only HDF5 can read it
};

}  // namespace attn::io
