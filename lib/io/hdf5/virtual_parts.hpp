#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/open_dataset.hpp"

namespace attn::io {

/// The parts of a virtual dataset. Each maps a selection of it to a selection of a source with the
/// same number of elements. HDF5 would also look for sources in the current directory and replace
/// missing ones by fill values, so sources are found, checked and read one by one here.
class VirtualParts {
 public:
  /// `handle` is the open dataset, which lies in `file`. Throws Error(input) naming `address` and
  /// the source if a source is missing, cannot be read, or is smaller or of another shape than the
  /// part taken from it; also for parts without fixed extents.
  VirtualParts(hid_t handle, const std::shared_ptr<const InputFile>& file,
               const std::string& address, int depth);
  ~VirtualParts();

  /// As OpenDataset::read.
  void read(hid_t type, hid_t memory, hid_t selection, void* out) const;

  std::int64_t bytes_at_once() const { return bytes_at_once_; }

  /// As OpenDataset::most_written.
  double most_written() const noexcept { return most_written_; }

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
  double most_written_ = 0;
  /// The sources used last; a dataset may have more sources than a process can have open files.
  mutable std::vector<std::pair<const Part*, std::shared_ptr<const OpenDataset>>> recent_;
};

}  // namespace attn::io
