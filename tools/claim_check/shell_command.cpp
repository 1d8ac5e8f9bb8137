#include "claim_check/shell_command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <re2/re2.h>

#include "attnkit/error.hpp"
#include "cli/terminal.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

using Clock = std::chrono::steady_clock;

// $1 is the command; the words after it are a program that runs it. The command runs in the
// background of the waiting shell, which can therefore handle a signal at once: it signals the
// group, and no other process in it has a handler. Orphaned processes of any group become this
// shell's children; children that remain at the end are killed, from the N-th hundredth of a second
// on.
constexpr const char* wrapper = R"(
left() {
  children=()
  { read -r -a children <"/proc/$$/task/$$/children"; } 2>/dev/null
  ((${#children[@]} > 0))
}
end_after() {
  for n in {1..300}; do
    left || return
    if ((n > $1)); then kill -KILL "${children[@]}" 2>/dev/null; fi
    sleep 0.01
  done
}
trap 'trap "" TERM; kill -TERM 0; end_after 100; exit 143' TERM
(trap - INT QUIT; exec "${@:2}" /bin/bash -e -o pipefail -c "$1") &
wait $!
status=$?
end_after $(($# > 1 ? 100 : 0))
exit $status
)";

// The time in which the shell must end all processes after a request.
constexpr auto grace = std::chrono::seconds(10);

// Whether the variable would change the behaviour of bash, define a function that hides a tool, or
// identify the terminal or the run.
bool is_hidden(const std::string& name) {
  static const RE2 hidden(
      "BASH_FUNC_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|POSIXLY_CORRECT|PWD|OLDPWD|SHLVL|_|"
      "TERM|LINES|COLUMNS|MAKEFLAGS|MFLAGS|MAKELEVEL|(SLURM|GITHUB|RUNNER|SSH|XDG_SESSION)_.*");
  return RE2::FullMatch(name, hidden);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Runs in the child, where only system calls are allowed: other threads may have held locks.
[[noreturn]] void become(const ShellCommand& command, char** words, char** environment,
                         pid_t parent) {
  setpgid(0, 0);
  // The shell could not trap a signal that is ignored here.
  for (const int number :
       {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE, SIGCHLD}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The parent may have ended before the call above.
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  const int errors = open(command.errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int output =
      command.output.empty() ? errors : open(command.output.c_str(), O_WRONLY | O_CREAT, 0600);
  if (nothing < 0 || errors < 0 || output < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
      dup2(errors, 2) < 0 || chdir(command.directory.c_str()) != 0) {
    _exit(127);
  }
  // The command gets no other open files of this process, whose contents a cache would not know.
  close_range(3, ~0U, 0);
  execve("/bin/bash", words, environment);
  _exit(127);
}

// Whether the child has ended; it is not reaped yet, so its number is not reused.
bool has_ended(pid_t child) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

// Whether it ended before `end`.
bool wait_until(pid_t child, Clock::time_point end) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  // If the kernel has no such handles, this polls.
  const auto most = std::chrono::milliseconds(handle >= 0 ? 3600000 : 20);
  bool ended = has_ended(child);
  while (!ended && Clock::now() < end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    struct pollfd wanted = {handle, POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(std::clamp(left, left.zero(), most).count()));
    ended = has_ended(child);
  }
  if (handle >= 0) close(handle);
  return ended;
}

}  // namespace

std::vector<std::string> shell_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const std::string name = line.substr(0, line.find('='));
    if (!is_hidden(name) && added.count(name) == 0) all.push_back(line);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

ShellOutcome run_shell(const ShellCommand& command) {
  std::vector<std::string> words = {"bash", "-c", wrapper, "claim", command.command};
  words.insert(words.end(), command.before.begin(), command.before.end());
  std::vector<std::string> environment = shell_environment(command.environment);
  std::vector<char*> word_list = pointers(words);
  std::vector<char*> environment_list = pointers(environment);
  const auto start = Clock::now();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    throw Error(Failure::output, "cannot create a process: " + system_reason(errno));
  }
  if (child == 0) become(command, word_list.data(), environment_list.data(), parent);
  // In parent and child, whichever comes first.
  setpgid(child, child);
  const auto limit = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(command.time_limit));
  ShellOutcome outcome;
  outcome.timed_out = !wait_until(child, start + limit);
  if (outcome.timed_out) {
    kill(child, SIGTERM);
    wait_until(child, Clock::now() + grace);
  }
  // If the shell could not do it.
  kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

}  // namespace attn::tools
