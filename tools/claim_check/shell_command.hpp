#pragma once

#include <map>
#include <string>

namespace attn::tools {

struct ShellCommand {
  std::string command;                             ///< for bash, with -e and pipefail
  std::string directory;                           ///< working directory
  std::map<std::string, std::string> environment;  ///< added to this process's environment
  std::string errors;                              ///< file for its stderr and unused stdout
  std::string output = {};                         ///< file for its stdout; empty: errors
  double time_limit = 0;                           ///< seconds; > 0
};

struct ShellOutcome {
  int status = 0;          ///< exit status; 128 + the signal that ended it
  bool timed_out = false;  ///< ended at the time limit, with all its children
  double seconds = 0;      ///< elapsed time
};

/// Runs the command to its end with an empty stdin. Processes that it leaves running are then
/// killed, even in another process group or session. At the limit, or if this process ends first,
/// its processes are sent SIGTERM, and SIGKILL after a second; only a command that kills (SIGKILL)
/// its own process group may leave others. Functions and options of a shell around this process are
/// not visible. SIGCHLD must not be ignored. May be called by several threads. Throws Error(output)
/// if no process can be created.
ShellOutcome run_shell(const ShellCommand& command);

}  // namespace attn::tools
