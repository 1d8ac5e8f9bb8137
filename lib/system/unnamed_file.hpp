#pragma once

#include <functional>
#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// A file without a name: it disappears with its last descriptor, however the process ends. HDF5
/// opens files by name only (1.10 not even through /proc), so the file has a name while HDF5 opens
/// it.
class UnnamedFile {
 public:
  /// Makes an O_TMPFILE in `folder`, or a file of mode 0600 if that is unsupported (or, in tests,
  /// not allowed); the latter has a name until with_name ends. Throws Error(output) naming the
  /// folder.
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
