#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attn::tools {

/// What a command looked at outside of its own folder.
struct CommandReads {
  struct Look {
    bool opened = false;  ///< what a file holds, or the names in a folder; else what is there
    bool found = false;   ///< something was there
    bool missed = false;  ///< nothing was there
  };
  std::map<std::string, Look> looks = {};  ///< by path, as the command named it
  std::int64_t start = 0;                  ///< when the command started, by file_time_now

  /// Why its result may depend on more, or has changed what it depends on; "" if it does not.
  std::string more = {};
};

/// The words before a command that let strace write all that it looks at, of each process into a
/// file of its own, PREFIX.PROCESS.
std::vector<std::string> tracing_words(const std::string& prefix);

/// Why commands cannot be traced here, in one line; "" if they can. `scratch` is a scratch folder.
std::string tracing_problem(const std::string& scratch);

/// Reads what strace wrote of a command that ran in `folder`, inside of the folder `around`, in
/// which other commands may have theirs. `folder` must still be there. What /proc, /sys and devices
/// tell does not count. The result has `more` if
///
/// - a process is not traced from its beginning to its end,
/// - the command changes anything outside of its folder, even if that fails,
/// - it looks into folders of other commands,
/// - it makes a link to a folder, or one with "..", so that paths do not tell where they lead,
/// - it may have talked to processes that are not its own, or have looked at files in ways that are
///   not traced: sockets, shared memory, io_uring, other roots or mounts, and the like,
/// - a program that it runs is no script and no executable of this machine.
CommandReads read_trace(const std::string& prefix, const std::string& folder,
                        const std::string& around);

}  // namespace attn::tools
