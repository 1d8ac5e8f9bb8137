#pragma once

#include <functional>
#include <string>

#include "io/descriptor.hpp"

namespace attn::io {

/// A name that is removed with its owner and, until then, by remove_temporaries() (output.hpp).
class TemporaryName {
 public:
  TemporaryName() = default;
  explicit TemporaryName(const std::string& path);
  ~TemporaryName() { remove(); }
  TemporaryName(TemporaryName&& other) noexcept;
  TemporaryName& operator=(TemporaryName&& other) noexcept;

  const std::string& path() const noexcept { return path_; }

  /// Unlinks it now, if it is there. The name is free for others after this.
  void remove() noexcept;

  /// Gives up ownership: the name was taken by a rename, or never came into being.
  void release() noexcept;

 private:
  std::string path_;
  int slot_ = -1;
};

/// Tries `create` with names `folder/prefixXXXXXX.tmp`, X random, until it does not fail with
/// EEXIST. `create` returns whether it made the file, setting errno where not. An empty path
/// where it failed otherwise, errno being create's. The name is registered before the file
/// exists, so that no signal finds a file that is not to be removed yet.
TemporaryName make_temporary(const std::string& folder, const std::string& prefix,
                             const std::function<bool(const std::string&)>& create);

/// A file for temporaries of streams: `given`, else $TMPDIR, else /tmp.
std::string temporary_folder(const std::string& given);

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

}  // namespace attn::io
