#pragma once

#include <functional>
#include <string>

namespace attn {

/// A name that is removed with its owner and, until then, by remove_temporaries().
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

/// Undoes what a Replacement (replacement.hpp) has replaced for now, and removes the temporaries of
/// this process. Safe to call from a signal handler.
void remove_temporaries() noexcept;

/// The folder for temporaries of streams: `given`, else $TMPDIR, else /tmp.
std::string temporary_folder(const std::string& given);

}  // namespace attn
