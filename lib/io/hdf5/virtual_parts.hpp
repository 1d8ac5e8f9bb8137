#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/open_dataset.hpp"

namespace attn::io {

/// The parts of a virtual dataset, each a selection of it and one of a source of the same number of
/// elements. HDF5 would look for sources in the current directory too, and read those it does not
/// find as fill values: here they are found, checked and read one by one.
class VirtualParts {
 public:
  /// Of the open dataset `handle`, which lies in `file`. Throws Error(input) naming `address` and
  /// the source for one that is missing, cannot be read, or is smaller or of another shape than the
  /// part that is taken of it; and for parts without fixed extents.
  VirtualParts(hid_t handle, const std::shared_ptr<const InputFile>& file,
               const std::string& address, int depth);
  ~VirtualParts();

  /// As OpenDataset::read has it.
  void read(hid_t type, hid_t memory, hid_t selection, void* out) const;

  std::int64_t bytes_at_once() const { return bytes_at_once_; }

 private:
  struct Part;
  void add(hid_t creation, std::size_t index, std::vector<std::string>& files);
  void check(Part& part, hid_t source) const;
  std::shared_ptr<const OpenDataset> open(const Part& part) const;
  std::shared_ptr<const OpenDataset> recent(const Part& part) const;
  void fill(hid_t type, hid_t memory, void* out) const;

  std::shared_ptr<const InputFile> file_;
  std::string address_;
  int depth_;
  h5::Handle creation_;
  h5::Handle space_;
  std::vector<Part> parts_;
  std::int64_t bytes_at_once_ = 0;
  /// Sources that were used last; a dataset may have more of them than files can be open.
  mutable std::vector<std::pair<const Part*, std::shared_ptr<const OpenDataset>>> recent_;
};

}  // namespace attn::io
