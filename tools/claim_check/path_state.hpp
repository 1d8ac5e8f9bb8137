#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace attn::tools {

/// Nanoseconds of the clock by which the kernel dates changes of files.
std::int64_t file_time_now();

/// The object that a path leads to.
struct PathState {
  /// Two texts are equal if the paths lead to equal objects:
  ///
  /// - nothing, for the same reason,
  /// - a file with the same permissions, owner, number of links and content, and, if it was not
  ///   opened, the same time,
  /// - a folder with the same permissions, owner and, if it was opened, names of the same kinds,
  /// - the same device,
  /// - a link with the same text that leads to the same.
  std::string text;
  /// Device and number of the file or folder: paths to the same object have the same.
  std::pair<std::uint64_t, std::uint64_t> file = {};
  bool is_there = false;         ///< also a link that leads nowhere
  bool leads_somewhere = false;  ///< to an existing object, after all links
  /// The last possible change of the state in `text`, by file_time_now; 0 for a missing object and
  /// for a folder that was not opened.
  std::int64_t changed = 0;
};

/// Finds states, and reads each version of a file once. Not thread-safe.
class PathStates {
 public:
  /// `opened`: the path was opened, not only looked at. Absent if the state cannot be known: a file
  /// or folder that cannot be read or changes meanwhile, a FIFO, a socket.
  std::optional<PathState> of(const std::string& path, bool opened);

 private:
  /// Device, number, size, and time of the last change.
  using Version = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;
  static Version version_of(const struct stat& status);

  std::optional<std::string> digest(const std::string& file, const Version& version);

  std::map<Version, std::string> digests_;
};

}  // namespace attn::tools
