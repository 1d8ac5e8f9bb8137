#pragma once

#include <sys/types.h>

#include <string>

namespace attn::tools {

/// A new directory inside another one. The destructor removes it with its contents; if this process
/// ends earlier, also by a signal, a waiting helper process removes it. Must be created before
/// other threads start. Throws Error(output) if no directory or process can be created.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }  ///< absolute

  /// Removes the folder now; returns false if a part cannot be removed.
  bool remove();

 private:
  std::string path_;
  int held_ = -1;  ///< one end of a pipe that closes when this process ends
  pid_t keeper_ = -1;
};

}  // namespace attn::tools
