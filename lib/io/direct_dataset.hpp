#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/arrays/array_dataset.hpp"
#include "io/hdf5/hdf5_dataset.hpp"

namespace attn::io {

/// A dataset of an HDF5 file. Numbers that lie there in one piece, as they are in memory, are read
/// as those of an .npy are, so that reading needs no turn in HDF5 and no buffer.
class DirectDataset : public Hdf5Dataset {
 public:
  /// As of Hdf5Dataset.
  DirectDataset(std::shared_ptr<const InputFile> file, OpenDataset dataset,
                std::string dataset_name, std::string address_text,
                const std::vector<SliceItem>& selection);

  void read_stored(const Shape& start, const Shape& count, void* out) const override;

 private:
  std::unique_ptr<const ArrayDataset> array_;  ///< null: only HDF5 can read it
};

}  // namespace attn::io
