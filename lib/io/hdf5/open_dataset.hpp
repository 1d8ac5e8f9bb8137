#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

class VirtualParts;

/// A dataset of an input, open for reading wherever its elements lie: in its own file, in raw files
/// beside it, or in the datasets of which a virtual one is made. Used under h5::Lock.
class OpenDataset {
 public:
  /// `object` is a dataset, which messages call `address`. Throws Error(input) where it cannot be
  /// opened, and where a source of it is missing, too short or of another shape than it says.
  /// `depth` counts the virtual datasets between this and the one that was asked for.
  OpenDataset(const Object& object, std::string address, int depth = 0);
  ~OpenDataset();
  OpenDataset(OpenDataset&&) noexcept;
  OpenDataset& operator=(OpenDataset&&) noexcept;

  hid_t handle() const noexcept { return handle_.get(); }
  const std::string& address() const noexcept { return address_; }

  /// Reads the selected elements as H5Dread does, as `type`. The selections are of all axes of the
  /// dataset. Elements that a virtual dataset takes from no source have its fill value. Throws
  /// Error(input).
  void read(hid_t type, hid_t memory, hid_t selection, void* out) const;

  /// The shape of its chunks; no axes where it has none.
  const Shape& chunk() const noexcept { return chunk_; }

  /// The bytes of a compressed chunk, which is decompressed as a whole; 0 where there is none.
  std::int64_t bytes_at_once() const;

 private:
  void complete(const Object& object, int depth);
  std::int64_t packed_bytes(hid_t selection) const;

  h5::Handle handle_;
  std::string address_;
  Shape chunk_;
  std::int64_t packed_chunk_bytes_ = 0;  // unpacked; 0 where chunks are not compressed
  std::unique_ptr<VirtualParts> parts_;  // of a virtual one
};

/// Throws Error(input) saying why a read of `dataset` failed: a filter that this HDF5 has not got,
/// or else `why`.
[[noreturn]] void refuse_unread(hid_t dataset, const std::string& address, const h5::Reason& why);

/// Access properties for a dataset of this shape and these chunks whose chunk cache holds `strips`
/// times all chunks along the last axis (32 MiB at most, though always one chunk), so that reading
/// or writing by rows, at as many places side by side, meets no chunk twice.
h5::Handle cached_access(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& chunk,
                         std::size_t element_size, std::size_t strips);

}  // namespace attn::io
