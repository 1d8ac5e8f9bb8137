#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/address.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/open_dataset.hpp"
#include "io/hdf5/read_parts.hpp"
#include "tensor/array_source.hpp"

namespace attn::io {

/// A dataset of an HDF5 file, or a hyperslab of it.
class Hdf5Dataset : public ArraySource::Impl {
 public:
  /// `address_text` is its name in messages. Throws Error(input) if the dataset has no dataspace,
  /// if the selection does not fit, or if the file declares too much that was never written
  /// (NeverWritten).
  Hdf5Dataset(std::shared_ptr<const InputFile> file, OpenDataset dataset, std::string dataset_name,
              std::string address_text, const std::vector<SliceItem>& selection);
  ~Hdf5Dataset() override;

  void read_stored(const Shape& start, const Shape& count, void* out) const override;
  std::vector<std::string> read_strings() const override;
  std::int64_t bytes_at_once() const override;

  /// Reads elements of any type as `memory_type`; called under the lock. For copying.
  void read_raw(const Shape& start, const Shape& count, hid_t memory_type, void* out) const;

  const OpenDataset& stored() const noexcept { return dataset_; }

  /// Whether elements are stored as read_stored returns them, apart from a swapped byte order.
  bool stored_as_read() const;
  bool swapped() const noexcept { return type_.swap_bytes; }

  hid_t handle() const noexcept { return dataset_.handle(); }
  bool sliced() const noexcept { return sliced_; }
  const Hyperslab& slab() const noexcept { return slab_; }

 private:
  /// The selection in the file that corresponds to a block of the result, and the lengths of the
  /// file's axes.
  struct Selection {
    h5::Handle space;
    std::vector<hsize_t> count;
    Shape first;  ///< position of its first element in the file
    Shape step;
  };
  Selection select(const Shape& start, const Shape& count) const;
  std::vector<std::string> fixed_strings() const;
  std::vector<std::string> variable_strings() const;

  std::shared_ptr<const InputFile> file_;
  OpenDataset dataset_;
  h5::StoredType type_;
  Hyperslab slab_;
  bool sliced_;
};

}  // namespace attn::io
