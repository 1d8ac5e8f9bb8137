#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attn::tools {

/// The paths outside its own folder that a command looked at.
struct CommandReads {
  struct Look {
    bool opened = false;  ///< contents of a file or names in a folder; else only the kind
    bool found = false;   ///< something was there
    bool missed = false;  ///< nothing was there
  };
  std::map<std::string, Look> looks = {};  ///< by path, as the command named it
  std::int64_t start = 0;                  ///< when the command started, by file_time_now

  /// Why the result may depend on more, or why the command changed what it depends on; else "".
  std::string more = {};
};

/// The words before a command that make strace write all accesses, with a file PREFIX.PROCESS for
/// each process.
std::vector<std::string> tracing_words(const std::string& prefix);

/// Why commands cannot be traced here, in one line; "" if they can. `scratch` is a scratch folder.
std::string tracing_problem(const std::string& scratch);

/// Reads strace's output for a command that ran in `folder`, inside the folder `around`, which may
/// have folders of other commands. `folder` must still exist. Contents of /proc, /sys and devices
/// do not count. The result has `more` if
///
/// - a process is not traced from its beginning to its end,
/// - the command changes anything outside its folder, even if that fails,
/// - the command looks into folders of other commands,
/// - it makes a link to a folder or with "..", so that paths do not tell where they lead,
/// - it may have talked to foreign processes, or looked at files in ways that are not traced:
/// sockets, shared memory, io_uring, other roots or mounts, and the like,
/// - a program that it runs is no script and no executable of this machine.
CommandReads read_trace(const std::string& prefix, const std::string& folder,
                        const std::string& around);

}  // namespace attn::tools
