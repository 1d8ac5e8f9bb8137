#pragma once

#include <map>
#include <string>

namespace attn::tools {

struct ShellCommand {
  std::string command;            ///< for bash, with -e and pipefail: what fails in a pipe fails it
  std::string directory;          ///< where it runs
  bool removes_directory = true;  ///< should this process end before it
  std::map<std::string, std::string> environment;  ///< beside this process' own
  std::string errors;     ///< file that gets its stderr; its stdout too, which nobody reads
  double time_limit = 0;  ///< seconds; > 0
};

struct ShellOutcome {
  int status = 0;          ///< exit status; 128 + the signal that ended it
  bool timed_out = false;  ///< ended at the limit, with all it had begun
  double seconds = 0;      ///< by the clock
};

/// Runs it to its end, with an empty stdin. What it starts is a process group of its own, which
/// is killed at the limit and asked to end (SIGTERM) should this process end first; `directory` may
/// be removed then. Functions that this shell's parent exports are not seen. May be called by
/// several threads. Throws Error(output) where no process can be made.
ShellOutcome run_shell(const ShellCommand& command);

}  // namespace attn::tools
