#pragma once

#include <functional>
#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// A file without a name: it is gone with its last descriptor, whatever ends the process. HDF5
/// can open files by name only (1.10 not even through /proc), so it has one while it is opened.
class UnnamedFile {
 public:
  /// O_TMPFILE in `folder`; a 0600 file where that is not supported (or not wanted: for tests),
  /// which has a name up to the end of with_name. Throws Error(output) naming the folder.
  explicit UnnamedFile(const std::string& folder, bool allow_tmpfile = true);

  /// At offset 0 in the beginning.
  int descriptor() const noexcept { return descriptor_.get(); }

  /// Calls `open` with a path that leads to the file until `open` returns. Once only.
  void with_name(const std::function<void(const std::string&)>& open);

 private:
  std::string folder_;
  TemporaryName name_;
  Descriptor descriptor_;
};

}  // namespace attn
