#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn::tools {

struct ShellCommand {
  std::string command;                             ///< for bash, with -e and pipefail
  std::string directory;                           ///< working directory
  std::map<std::string, std::string> environment;  ///< added to shell_environment
  std::vector<std::string> before = {};            ///< words of a program that runs bash: strace
  std::string errors;                              ///< file for its stderr and unused stdout
  std::string output = {};                         ///< file for its stdout; empty: errors
  double time_limit = 0;                           ///< seconds; > 0
};

struct ShellOutcome {
  int status = 0;          ///< exit status; 128 + the signal that ended it
  bool timed_out = false;  ///< ended at the time limit, with all its children
  double seconds = 0;      ///< elapsed time
};

/// The environment of this process, as "NAME=VALUE", without variables that differ between
/// terminals or runs (PWD, OLDPWD, SHLVL, _, TERM, LINES, COLUMNS, MAKEFLAGS, MFLAGS, MAKELEVEL,
/// and SLURM_*, GITHUB_*, RUNNER_*, SSH_*, XDG_SESSION_*), without variables that change bash, and
/// with the variables `added` at the end.
std::vector<std::string> shell_environment(const std::map<std::string, std::string>& added);

/// Runs the command to its end with an empty stdin. Processes that it leaves running are then
/// killed, even in another process group or session; with `before`, after a second, so that a
/// watching program ends by itself. At the limit, or if this process ends first, the command's
/// processes are sent SIGTERM, and SIGKILL after a second. Only a command that kills (SIGKILL) its
/// own process group may leave processes behind. Functions and options of a shell around this
/// process are not visible. SIGCHLD must not be ignored. May be called by several threads. Throws
/// Error(output) if no process can be created.
ShellOutcome run_shell(const ShellCommand& command);

}  // namespace attn::tools
