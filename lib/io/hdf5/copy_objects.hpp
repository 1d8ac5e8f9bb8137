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

/// Copies what lies below a group under the root of a new file. An object that several hard links
/// lead to is copied once, and links lead to it there too. Called under h5::Lock.
class ObjectCopier {
 public:
  /// With `keep_soft_links` those are copied as such, which is right where all of a file is
  /// copied; else they become what they lead to. External links, whose file names are relative to
  /// where their file lies, become what they lead to.
  /// Members at paths of the output that `skip` picks are left out.
  ObjectCopier(OutputFile& output, bool keep_soft_links,
               std::function<bool(const std::string&)> skip)
      : output_(output), keep_soft_links_(keep_soft_links), skip_(std::move(skip)) {}

  /// The members of a group that is called `address` in messages ("in.h5:" for the root). Throws
  /// Error(input) naming what cannot be copied, a link that leads to nothing that can be opened
  /// among it.
  void copy_members(const Object& group, const std::string& address);

 private:
  std::optional<Object> copy_member(const GroupWalk::Member& member);
  bool is_copied(const std::string& identity, const std::string& address, const CopyTarget& target);
  void keep_scales(hid_t dataset, const std::string& path);
  void copy_group(const Object& group, const std::string& address, const CopyTarget& target);
  void copy_type(hid_t type, const std::string& address, const CopyTarget& target);

  OutputFile& output_;
  bool keep_soft_links_;
  std::function<bool(const std::string&)> skip_;
  std::vector<h5::Handle> groups_;  // of the output, from the root to the one being filled
  std::vector<ScaledDataset> scaled_;
  std::map<std::string, std::string> copied_;  // from identity to path
};

}  // namespace attn::io
