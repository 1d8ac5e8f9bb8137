#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/copy_scales.hpp"
#include "io/h5.hpp"
#include "io/output_file.hpp"

namespace attn::io {

/// Copies objects from one or more files under the root of a new one. An object that several hard
/// links lead to is copied once, and links lead to it there too. Called under h5::Lock.
class ObjectCopier {
 public:
  /// With `keep_soft_links` those are copied as such, which is right where all of a file is
  /// copied; else they become what they lead to. External links, whose file names are relative to
  /// where their file lies, become what they lead to. Links that lead nowhere are kept.
  /// Members at paths of the output that `skip` picks are left out.
  ObjectCopier(OutputFile& output, bool keep_soft_links,
               std::function<bool(const std::string&)> skip)
      : output_(output), keep_soft_links_(keep_soft_links), skip_(std::move(skip)) {}

  /// The members of a group that is called `address` in messages ("in.h5:" for the root), into the
  /// group `path` of the output ("" for the root).
  void copy_members(hid_t group, const std::string& address, const std::string& path);

  /// Attaches the copied dimension scales to the copied datasets. To be called when all is copied.
  void finish() { attach_scales(scaled_, copied_, output_); }

  /// One object of any kind. Throws Error(input) naming it where it cannot be copied.
  void copy_object(hid_t object, const std::string& address, const std::string& path);

 private:
  void copy_link(hid_t group, const h5::Link& link, const std::string& address,
                 const std::string& path);
  void copy_symbolic(hid_t group, const h5::Link& link, const std::string& address,
                     const std::string& path);
  void copy_group(hid_t group, const std::string& address, const std::string& path);
  void copy_type(hid_t type, const std::string& address, const std::string& path);

  OutputFile& output_;
  bool keep_soft_links_;
  std::function<bool(const std::string&)> skip_;
  std::vector<ScaledDataset> scaled_;
  std::map<std::string, std::string> copied_;  // from identity to path
};

}  // namespace attn::io
