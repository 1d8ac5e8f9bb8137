#pragma once

#include <functional>
#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// Opens a new file of mode 0600 in `folder` for reading and writing. The file has no name
/// (O_TMPFILE); if that is unsupported or `allow_tmpfile` is false, it has a name that begins with
/// `prefix`, which is stored in `name`. On failure the result is empty and errno is set.
Descriptor open_unnamed(const std::string& folder, const std::string& prefix, TemporaryName& name,
                        bool allow_tmpfile = true);

/// Gives a file from open_unnamed a name in the folder in which it was opened. On failure the
/// returned path is empty and errno is set.
TemporaryName name_unnamed(int descriptor, const std::string& folder, const std::string& prefix);

/// A file without a name: it disappears with its last descriptor, however the process ends. HDF5
/// opens files by name only (1.10 not even through /proc), so the file has a name while HDF5 opens
/// it.
class UnnamedFile {
 public:
  /// Opens the file by open_unnamed (tests set allow_tmpfile to false). A file that must have a
  /// name keeps it until with_name ends. Throws Error(output) naming the folder.
  explicit UnnamedFile(const std::string& folder, bool allow_tmpfile = true);

  /// Initially at offset 0.
  int descriptor() const noexcept { return descriptor_.get(); }

  /// Calls `open` with a path that leads to the file until `open` returns. May be called only once.
  void with_name(const std::function<void(const std::string&)>& open);

 private:
  std::string folder_;
  TemporaryName name_;
  Descriptor descriptor_;
};

}  // namespace attn
