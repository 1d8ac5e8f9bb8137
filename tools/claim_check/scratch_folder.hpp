#pragma once

#include <sys/types.h>

#include <string>

namespace attn::tools {

/// A new directory in another one, removed with all in it by the destructor or, where this process
/// ends before that, by signal too, by a process that does nothing but wait for it. Made before
/// there are other threads. Throws Error(output) where no directory or process can be made.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }  ///< absolute

  /// Removes it now; false where something of it cannot be removed.
  bool remove();

 private:
  std::string path_;
  int held_ = -1;  ///< its end of a pipe, which closes with this process
  pid_t keeper_ = -1;
};

}  // namespace attn::tools
