#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

namespace attn::io {

class VirtualParts;

/// A dataset of an input, open for reading wherever its elements are stored: in its own file, in
/// raw files beside it, or in the source datasets of a virtual one. Used under h5::Lock.
class OpenDataset {
 public:
  /// `object` is a dataset, called `address` in messages. Throws Error(input) if it cannot be
  /// opened, or if one of its sources is missing, too short or of another shape than declared.
  /// `depth` counts the virtual datasets between this one and the requested one.
  OpenDataset(const Object& object, std::string address, int depth = 0);
  ~OpenDataset();
  OpenDataset(OpenDataset&&) noexcept;
  OpenDataset& operator=(OpenDataset&&) noexcept;

  hid_t handle() const noexcept { return handle_.get(); }
  const std::string& address() const noexcept { return address_; }

  /// Reads the selected elements as `type`, like H5Dread. The selections cover all axes of the
  /// dataset. Elements of a virtual dataset that no source supplies have its fill value. Throws
  /// Error(input), also for texts and lists that claim more bytes than their file has.
  void read(hid_t type, hid_t memory, hid_t selection, void* out) const;

  /// Where all elements lie as stored, in row-major order; no bytes if only HDF5 can find them.
  struct Place {
    std::shared_ptr<const Bytes> bytes = {};
    Index offset = 0;  ///< of the first element
    Shape shape = {};
  };
  const Place& place() const noexcept { return place_; }

  /// The chunk shape; no axes if the dataset is not chunked.
  const Shape& chunk() const noexcept { return chunk_; }

  /// The unpacked size in bytes of a compressed chunk, which is decompressed as a whole; 0 if
  /// chunks are not compressed.
  std::int64_t bytes_at_once() const;

  /// An upper bound on the unpacked bytes of the elements that were ever written. All others have
  /// the fill value and take no room.
  double most_written() const noexcept { return most_written_; }

 private:
  void complete(const Object& object, int depth);
  std::int64_t packed_bytes(hid_t selection) const;

  h5::Handle handle_;
  std::string address_;
  Place place_;
  Shape chunk_;
  std::int64_t packed_chunk_bytes_ = 0;  // unpacked; 0 if chunks are not compressed
  double most_written_ = 0;
  std::unique_ptr<VirtualParts> parts_;  // set for a virtual dataset
};

/// Throws Error(input) with the reason why reading `dataset` failed: a filter that this HDF5 does
/// not have, or else `why`.
[[noreturn]] void refuse_unread(hid_t dataset, const std::string& address, const h5::Reason& why);

/// Access properties for a dataset of this shape and chunk shape. The chunk cache holds `strips`
/// times all chunks along the last axis (at least one chunk, at most 32 MiB unless one chunk is
/// larger), so that no chunk is processed twice if rows are read or written at up to `strips`
/// places side by side.
h5::Handle cached_access(const std::vector<hsize_t>& shape, const std::vector<hsize_t>& chunk,
                         std::size_t element_size, std::size_t strips);

}  // namespace attn::io
