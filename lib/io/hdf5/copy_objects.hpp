#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/copy_dataset.hpp"
#include "io/hdf5/copy_scales.hpp"
#include "io/hdf5/group_walk.hpp"
#include "io/hdf5/output_file.hpp"

namespace attn::io {

/// Copies the objects below a group under the root of a new file. Existing objects stay: an
/// existing group gets only missing members and attributes. An object that several hard links lead
/// to is copied once and linked as often. Called under h5::Lock.
class ObjectCopier {
 public:
  /// With `keep_soft_links`, soft links are copied as links, which is right if the whole file is
  /// copied; otherwise they are replaced by their targets. External links, whose file names are
  /// relative to the folder of their file, are always replaced by their targets. Members whose
  /// output paths `skip` accepts are left out.
  ObjectCopier(OutputFile& output, bool keep_soft_links,
               std::function<bool(const std::string&)> skip)
      : output_(output), keep_soft_links_(keep_soft_links), skip_(std::move(skip)) {}

  /// Copies the members of a group, called `address` in messages ("in.h5:" for the root). Throws
  /// Error(input) naming the first object that cannot be copied, which includes a link whose target
  /// cannot be opened.
  void copy_members(const Object& group, const std::string& address);

 private:
  std::optional<Object> copy_member(const GroupWalk::Member& member);
  bool is_copied(const std::string& identity, const std::string& address, const CopyTarget& target);
  void keep_scales(hid_t dataset, const std::string& path);
  void copy_group(const Object& group, const std::string& address, const CopyTarget& target);
  void join_group(const Object& group, const std::string& address, const CopyTarget& target);
  void copy_type(hid_t type, const std::string& address, const CopyTarget& target);

  OutputFile& output_;
  bool keep_soft_links_;
  std::function<bool(const std::string&)> skip_;
  std::vector<h5::Handle> groups_;  // of the output, from the root to the one being filled
  std::vector<ScaledDataset> scaled_;
  std::map<std::string, std::string> copied_;  // from an object's identity to the path of its copy
};

}  // namespace attn::io
