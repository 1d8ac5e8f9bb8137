#pragma once

#include <map>
#include <string>

namespace attn::tools {

struct ShellCommand {
  std::string command;    ///< for bash, with -e and pipefail: what fails in a pipe fails it
  std::string directory;  ///< where it runs
  std::map<std::string, std::string> environment;  ///< beside this process' own
  std::string errors;     ///< file that gets its stderr; its stdout too, which nobody reads
  double time_limit = 0;  ///< seconds; > 0
};

struct ShellOutcome {
  int status = 0;          ///< exit status; 128 + the signal that ended it
  bool timed_out = false;  ///< ended at the limit, with all it had begun
  double seconds = 0;      ///< by the clock
};

/// Runs it to its end, with an empty stdin. What it leaves running is killed then, in another
/// process group or session too; at the limit, and should this process end first, what runs is
/// asked to end (SIGTERM), and killed after a second; only a command that kills (SIGKILL) its own
/// process group may leave others. Functions and options of a shell around this process are not
/// seen. SIGCHLD is not to be ignored. May be called by several threads. Throws Error(output) where
/// no process can be made.
ShellOutcome run_shell(const ShellCommand& command);

}  // namespace attn::tools
