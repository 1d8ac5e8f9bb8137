#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// Tells where paths lie, seen from a command that runs in a folder of its own, beside those of
/// other commands.
class CommandPlace {
 public:
  enum class Where {
    inside,  ///< in the command's folder
    above,   ///< the folder around those of all commands
    beside,  ///< in it, but not in the command's folder
    system,  ///< below /proc, /sys or /dev, but not /dev/shm: no files
    behind,  ///< a path through a folder or descriptor of a process, as /proc/self/cwd/x
    elsewhere,
  };

  /// `folder` lies in `around`; both are absolute, and may have two names by symbolic links.
  CommandPlace(const std::string& folder, const std::string& around);

  /// Of an absolute path without "..", or with ".." and not below `around`.
  Where where(const std::string& path) const;

  /// The path, without ".." if it begins below `around`: there are no links to folders.
  std::string plain(const std::string& path) const;

 private:
  std::vector<std::string> folders_;
  std::vector<std::string> arounds_;
};

}  // namespace attn::tools
