#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/h5_type.hpp"
#include "io/input_dataset.hpp"
#include "io/input_file.hpp"
#include "io/read_parts.hpp"

namespace attn::io {

/// A dataset of an HDF5 file, or a hyperslab of it.
class Hdf5Dataset : public InputDataset::Impl {
 public:
  /// `handle` is the open dataset, `address_text` what messages call it. Throws Error(input) for
  /// a dataset without a dataspace and for a selection that does not fit.
  Hdf5Dataset(std::shared_ptr<const InputFile> file, h5::Handle handle, std::string dataset_name,
              std::string address_text, const std::vector<SliceItem>& selection);
  ~Hdf5Dataset() override;

  void read_stored(const Shape& start, const Shape& count, void* out) const override;
  std::vector<std::string> read_strings() const override;
  std::int64_t bytes_at_once() const override;

  /// Any elements, of any type, as `memory_type` has them; under the lock. For copying.
  void read_raw(const Shape& start, const Shape& count, hid_t memory_type, void* out) const;

  hid_t handle() const noexcept { return handle_.get(); }
  bool sliced() const noexcept { return sliced_; }
  const Hyperslab& slab() const noexcept { return slab_; }

 private:
  /// The selection in the file of a block of the result, and its axes' lengths in the file.
  struct Selection {
    h5::Handle space;
    std::vector<hsize_t> count;
    Shape first;  ///< in the file, of its first element
    Shape step;
  };
  Selection select(const Shape& start, const Shape& count) const;
  Parts parts_of(const Selection& selection, std::size_t element_size) const;
  std::vector<std::string> fixed_strings() const;
  std::vector<std::string> variable_strings() const;

  std::shared_ptr<const InputFile> file_;
  h5::Handle handle_;
  h5::StoredType type_;
  Hyperslab slab_;
  bool sliced_;

  struct ReadChunks {
    Shape shape;  ///< no axes: there are none
    Index packed_bytes = 0;
  };
  mutable std::optional<ReadChunks> chunks_;  ///< once something was read; under the lock
};

/// Throws Error(input) saying why a read of `dataset` failed: a filter that this HDF5 has not got,
/// or else `why`.
[[noreturn]] void refuse_unread(hid_t dataset, const std::string& address, const h5::Reason& why);

/// Access properties for a dataset of this shape and these chunks whose chunk cache holds `strips`
/// times all chunks along the last axis (32 MiB at most, though always one chunk), so that reading
/// or writing by rows, at as many places side by side, meets no chunk twice.
h5::Handle cached_access(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& chunk,
                         std::size_t element_size, std::size_t strips);

/// Opens `path` under `location` with such a cache, or without one where chunks are larger than
/// that and not compressed: HDF5 then reads no more than it is asked for. No handle where it fails.
h5::Handle open_dataset(hid_t location, const std::string& path);

}  // namespace attn::io
