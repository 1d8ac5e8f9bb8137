#pragma once

#include <functional>
#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// Opens a new file in `folder` for reading and writing, which only its owner may open: without a
/// name (O_TMPFILE) or, if the file system cannot do that or `allow_tmpfile` is false, with one
/// that begins with `prefix` and is put into `name`. Empty with errno set if both fail.
Descriptor open_unnamed(const std::string& folder, const std::string& prefix, TemporaryName& name,
                        bool allow_tmpfile = true);

/// Gives such a file a name in `folder`, that it was opened in. An empty path with errno set if
/// that fails.
TemporaryName name_unnamed(int descriptor, const std::string& folder, const std::string& prefix);

/// A file without a name: it is gone with its last descriptor, whatever ends the process. HDF5
/// can open files by name only (1.10 not even through /proc), so it has one while it is opened.
class UnnamedFile {
 public:
  /// As open_unnamed (allow_tmpfile is false in tests); a file that must have a name keeps it up
  /// to the end of with_name. Throws Error(output) naming the folder.
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
