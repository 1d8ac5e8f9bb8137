#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace attn::tools {

/// Nanoseconds of the clock by which the kernel dates changes of files.
std::int64_t file_time_now();

/// What a path leads to.
struct PathState {
  /// Two texts are equal if the same is there: nothing, for the same reason; a file with the same
  /// permissions and content; a folder with the same permissions and, if asked for, the same names
  /// of the same kinds; a device; or a link with the same text that leads to the same. Times of
  /// files and their owners do not count.
  std::string text;
  bool is_there = false;         ///< also a link that leads nowhere
  bool leads_somewhere = false;  ///< not to nothing, after all links
  /// When what the text says may have changed last, by file_time_now; 0 if nothing is there, and
  /// for a folder whose names do not count.
  std::int64_t changed = 0;
};

/// Finds states, and reads each version of a file once. Not for several threads at once.
class PathStates {
 public:
  /// `entries`: a folder's names count. Absent if the state cannot be known: a file or folder that
  /// cannot be read or changes meanwhile, a FIFO, a socket.
  std::optional<PathState> of(const std::string& path, bool entries);

 private:
  /// Device, number, size, and time of the last change.
  using Version = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;
  static Version version_of(const struct stat& status);

  std::optional<std::string> digest(const std::string& file, const Version& version);

  std::map<Version, std::string> digests_;
};

}  // namespace attn::tools
