#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// Tells where paths lie, from the viewpoint of a command in its own folder, beside the folders of
/// other commands.
class CommandPlace {
 public:
  enum class Where {
    inside,  ///< in the command's folder
    above,   ///< the folder around those of all commands
    beside,  ///< in the folder around, but not in the command's folder
    system,  ///< below /proc, /sys or /dev, but no file in /dev, and not in /dev/shm
    behind,  ///< a path through a folder or descriptor of a process, such as /proc/self/cwd/x
    elsewhere,
  };

  /// `folder` lies in `around`; both are absolute, and may have two names by symbolic links.
  CommandPlace(const std::string& folder, const std::string& around);

  /// The path is absolute; below `around` it has no "..".
  Where where(const std::string& path) const;

  /// Resolves ".." in paths below `around`. The text suffices there, as links to folders are not
  /// allowed.
  std::string plain(const std::string& path) const;

 private:
  std::vector<std::string> folders_;
  std::vector<std::string> arounds_;
};

}  // namespace attn::tools
