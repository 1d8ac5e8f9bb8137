#pragma once

#include <functional>
#include <string>

namespace attn {

/// A file name that is unlinked when its owner ends, or earlier by remove_temporaries().
class TemporaryName {
 public:
  TemporaryName() = default;
  explicit TemporaryName(const std::string& path);
  ~TemporaryName() { remove(); }
  TemporaryName(TemporaryName&& other) noexcept;
  TemporaryName& operator=(TemporaryName&& other) noexcept;

  const std::string& path() const noexcept { return path_; }

  /// Unlinks the file now, if it exists. Others may use the name afterwards.
  void remove() noexcept;

  /// Gives up ownership: a rename took the name, or the file was never created.
  void release() noexcept;

 private:
  std::string path_;
  int slot_ = -1;
};

/// Calls `create` with random names `folder/prefixXXXXXX.tmp`, at most 100 of them, until it does
/// not fail with EEXIST. `create` returns whether it made the file, and sets errno if not. On
/// failure the returned path is empty and errno is that of `create`. Each name is registered before
/// its file exists, so a signal never leaves the file behind.
TemporaryName make_temporary(const std::string& folder, const std::string& prefix,
                             const std::function<bool(const std::string&)>& create);

/// Undoes a provisional Replacement (replacement.hpp) and removes the temporaries of this process.
/// Safe to call from a signal handler.
void remove_temporaries() noexcept;

/// The folder for temporary files of streams: `given`, else $TMPDIR, else /tmp.
std::string temporary_folder(const std::string& given);

}  // namespace attn
