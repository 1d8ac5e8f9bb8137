#include "claim_check/command_trace.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/command_place.hpp"
#include "claim_check/path_state.hpp"
#include "claim_check/program_loader.hpp"
#include "claim_check/shell_command.hpp"
#include "claim_check/traced_call.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;
using Outcome = TracedCall::Outcome;
using Where = CommandPlace::Where;
using Names = std::set<std::string>;

// Calls that only look. Any other call that names a path may change the object there.
const Names looking = {"access",   "faccessat",  "faccessat2", "stat",  "stat64",
                       "lstat",    "lstat64",    "fstatat64",  "statx", "newfstatat",
                       "readlink", "readlinkat", "chdir"};
const Names opening = {"open", "openat", "openat2"};
const Names linking = {"symlink", "symlinkat"};
const Names starting = {"execve", "execveat"};
const Names forking = {"clone", "clone3", "fork", "vfork"};

// Calls by which a command may learn more than its paths show.
const Names hidden = {"listen",
                      "io_uring_setup",
                      "open_by_handle_at",
                      "ptrace",
                      "pidfd_getfd",
                      "process_vm_readv",
                      "shmget",
                      "msgget",
                      "semget",
                      "mq_open",
                      "add_key",
                      "request_key",
                      "keyctl",
                      "bpf",
                      "chroot",
                      "pivot_root",
                      "setns",
                      "unshare",
                      "mount"};

// Longer traces are not read.
constexpr std::uintmax_t most_trace = std::uintmax_t{1} << 28;

// read_trace keeps the reason.
[[noreturn]] void give_up(const std::string& why) { throw Error(Failure::input, why); }

bool is(const TracedCall& call, const Names& names) { return names.count(call.name) > 0; }

bool has(const TracedCall& call, std::string_view word) {
  return call.arguments.find(word) != std::string::npos;
}

bool is_done(const TracedCall& call) { return call.outcome == Outcome::done; }

// A file without a name gets one through /proc/self/fd, and /sys/fs/selinux tells whether there is
// SELinux.
bool passes_system(const TracedCall& call) {
  return call.name == "link" || call.name == "linkat" || call.name == "statfs";
}

// Whether a call failed only because the object exists, or does not.
bool shows_presence(const TracedCall& call) {
  const bool makes = call.name == "mkdir" || call.name == "mkdirat";
  return (makes && call.outcome == Outcome::exists) ||
         (call.name == "statfs" && call.outcome == Outcome::absent);
}

// The calls of one process, which is traced to its end.
std::vector<TracedCall> calls_in(const std::string& file) {
  std::vector<TracedCall> calls;
  std::ifstream stream(file);
  bool has_ended = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("--- ")) continue;  // a signal
    if (line.starts_with("+++ exited") || line.starts_with("+++ killed")) {
      has_ended = true;
    } else if (auto call = traced_call(line)) {
      calls.push_back(std::move(*call));
    } else {
      give_up("its trace has a line " + cli::one_line(line));
    }
  }
  if (!has_ended) give_up("a process of it was not traced to its end");
  return calls;
}

// By process.
std::map<long, std::vector<TracedCall>> all_calls(const std::string& prefix) {
  std::map<long, std::vector<TracedCall>> calls;
  const fs::path start(prefix);
  std::uintmax_t size = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(start.parent_path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().stem() != start.filename()) continue;
    size += entry.file_size();
    if (size > most_trace) give_up("its trace is too long");
    calls[std::stol(entry.path().extension().string().substr(1))] = calls_in(entry.path().string());
  }
  return calls;
}

// Follows the calls of all processes, from the one that begins in the command's folder.
class TraceReader {
 public:
  TraceReader(const std::string& folder, const std::string& around, CommandReads& reads)
      : folder_(folder), place_(folder, around), reads_(reads) {}

  void read(const std::map<long, std::vector<TracedCall>>& calls) {
    waiting_[first_of(calls)] = {folder_, false};
    std::size_t count = 0;
    for (; !waiting_.empty(); ++count) {
      const auto next = waiting_.extract(waiting_.begin());
      const auto found = calls.find(next.key());
      if (found == calls.end()) give_up("a process of it was not traced");
      process_ = next.mapped();
      for (const TracedCall& call : found->second) take(call);
    }
    if (count != calls.size()) give_up("its trace has processes that it did not start");
    for (const std::string& program : programs_) take_loaders(program);
  }

 private:
  struct Process {
    std::string folder;   // its working directory
    bool shares = false;  // with a thread
  };

  static long first_of(const std::map<long, std::vector<TracedCall>>& calls) {
    std::set<long> children;
    for (const auto& [process, list] : calls) {
      for (const TracedCall& call : list) {
        const bool is_new =
            !is(call, forking) || !is_done(call) || children.insert(call.value).second;
        if (!is_new) give_up("two processes of it had one number");
      }
    }
    for (const auto& [process, list] : calls) {
      if (children.count(process) == 0) return process;
    }
    give_up("it was not traced");
  }

  void take(const TracedCall& call) {
    if (is(call, forking)) {
      take_fork(call);
    } else if (is(call, hidden)) {
      give_up("it calls " + call.name);
    } else if (call.name == "socket") {
      if (!call.arguments.starts_with("AF_UNIX, SOCK_STREAM")) give_up("it opens a socket");
    } else if (call.name == "connect") {
      if (call.outcome != Outcome::absent || call.paths.empty()) give_up("it opens a connection");
      look(path_of(call.paths[0]), false, call.outcome);
    } else if (call.name == "fchdir") {
      if (is_done(call)) move_to(call.descriptor);
    } else if (is(call, opening)) {
      take_open(call);
    } else if (is(call, linking)) {
      take_link(call);
    } else if (is(call, starting)) {
      take_start(call);
    } else if (is(call, looking)) {
      take_look(call);
    } else if (call.name != "getcwd") {
      take_change(call);
    }
  }

  void take_fork(const TracedCall& call) {
    if (has(call, "CLONE_NEW")) give_up("it calls " + call.name + " with namespaces");
    if (!is_done(call)) return;
    const bool shares = has(call, "CLONE_FS");
    process_.shares = process_.shares || shares;
    waiting_[call.value] = {process_.folder, shares};
  }

  void take_look(const TracedCall& call) {
    if (call.paths.empty() && is_done(call)) give_up("it calls " + call.name + " without a path");
    // Otherwise the call looks at a descriptor, which was opened.
    if (call.paths.empty() || call.paths[0].path.empty()) return;
    const std::string path = path_of(call.paths[0]);
    look(path, false, call.outcome);
    if (call.name == "chdir" && is_done(call)) move_to(path);
  }

  void take_open(const TracedCall& call) {
    if (call.paths.empty()) {
      if (is_done(call)) give_up("it calls " + call.name + " without a path");
      return;
    }
    std::vector<std::string> paths = {path_of(call.paths[0])};
    // An object that is not a file has a name such as pipe:[1].
    if (call.opened.starts_with('/')) paths.push_back(call.opened);
    const bool changes = has(call, "O_WRONLY") || has(call, "O_RDWR") || has(call, "O_CREAT") ||
                         has(call, "O_TRUNC");
    const bool opens = is_done(call) && !has(call, "O_PATH");
    for (const std::string& path : paths) {
      if (changes && place_.where(place_.plain(path)) != Where::system) require_inside(path, call);
      look(path, opens, call.outcome);
    }
  }

  void take_link(const TracedCall& call) {
    if (call.paths.size() != 2) give_up("it calls " + call.name + " without two paths");
    const std::string link = path_of(call.paths[1]);
    const std::string& target = call.paths[0].path;
    require_inside(link, call);
    if (!is_done(call)) return;
    if (call.paths[0].cut || ("/" + target + "/").find("/../") != std::string::npos) {
      give_up("it makes a link to " + target);
    }
    const std::string full = (fs::path(link).parent_path() / target).string();
    std::error_code failed;
    if (fs::is_directory(full, failed)) give_up("it makes a link to the folder " + target);
    look(full, true, Outcome::unknown);
  }

  void take_start(const TracedCall& call) {
    if (call.paths.empty()) {
      if (is_done(call)) give_up("it calls " + call.name + " without a path");
      return;
    }
    const TracedPath& program = call.paths[0];
    const std::string path = program.path.empty() ? program.folder : path_of(program);
    look(path, is_done(call), call.outcome);
    if (is_done(call)) programs_.insert(path);
  }

  void take_change(const TracedCall& call) {
    if (call.paths.empty()) return require_inside(call.descriptor, call);
    for (const TracedPath& named : call.paths) {
      const std::string path = path_of(named);
      if (place_.where(path) == Where::system && passes_system(call)) continue;
      if (shows_presence(call)) {
        look(path, false, call.outcome);
      } else {
        require_inside(path, call);
      }
    }
  }

  // The kernel itself reads the loaders; an interpreter may have one, too.
  void take_loaders(const std::string& program) {
    std::string path = program;
    for (int depth = 0; !path.empty(); ++depth) {
      const auto loader = loader_of(path);
      if (!loader || depth == 8) give_up("it runs " + path + ", no script or executable");
      if (!loader->empty()) look(*loader, true, Outcome::done);
      path = *loader;
    }
  }

  void move_to(const std::string& folder) {
    if (process_.shares) give_up("a thread of it changes the working directory");
    process_.folder = place_.plain(folder);
  }

  std::string path_of(const TracedPath& named) const {
    if (named.cut) give_up("its trace does not have a whole path");
    if (named.path.starts_with('/')) return named.path;
    const std::string& folder = named.folder.empty() ? process_.folder : named.folder;
    if (!folder.starts_with('/')) give_up("it looks for " + named.path + " in no folder");
    return named.path.empty() ? folder : folder + "/" + named.path;
  }

  // For a call that may change what is at the path.
  void require_inside(const std::string& path, const TracedCall& call) const {
    if (place_.where(place_.plain(path)) == Where::inside) return;
    give_up("it calls " + call.name + " on " + path + ", outside of its folder");
  }

  void look(const std::string& named, bool opened, Outcome outcome) {
    const std::string path = place_.plain(named);
    switch (place_.where(path)) {
      case Where::inside:
      case Where::system:
        return;
      case Where::above:
        if (!opened) return;
        [[fallthrough]];
      case Where::beside:
        give_up("it looks into the folder of all commands");
      case Where::behind:
        give_up("it looks at " + path);
      case Where::elsewhere:
        break;
    }
    CommandReads::Look& look = reads_.looks[path];
    look.opened = look.opened || opened;
    look.found = look.found || outcome == Outcome::done || outcome == Outcome::exists;
    look.missed = look.missed || outcome == Outcome::absent;
  }

  std::string folder_;
  CommandPlace place_;
  CommandReads& reads_;
  std::map<long, Process> waiting_;
  Process process_;
  std::set<std::string> programs_;
};

}  // namespace

std::vector<std::string> tracing_words(const std::string& prefix) {
  std::string calls = "%file,fchdir,socket,connect";
  // Some architectures lack some of these.
  for (const Names* names : {&forking, &hidden}) {
    for (const std::string& name : *names) calls += ",?" + name;
  }
  // -D: the command stays a child of this process, and may end before its own children.
  return {"strace",
          "-ff",
          "-D",
          "--seccomp-bpf",
          "--quiet=attach,personality",
          "-y",
          "-xx",
          "-s",
          "0",
          "-e",
          "trace=" + calls,
          "-o",
          prefix,
          "--"};
}

std::string tracing_problem(const std::string& scratch) {
  ShellCommand command;
  command.command = "true";
  command.directory = scratch;
  command.errors = scratch + "/probe-errors";
  command.time_limit = 60;
  const std::string prefix = scratch + "/probe";
  command.before = tracing_words(prefix);
  const ShellOutcome outcome = run_shell(command);
  std::string line;
  std::getline(std::ifstream(command.errors), line);
  if (outcome.status != 0 || !line.empty()) return cli::one_line(line);
  return read_trace(prefix, scratch, scratch).more;
}

CommandReads read_trace(const std::string& prefix, const std::string& folder,
                        const std::string& around) {
  CommandReads reads;
  try {
    TraceReader(folder, around, reads).read(all_calls(prefix));
  } catch (const Error& error) {
    reads.more = cli::one_line(error.what());
  }
  return reads;
}

}  // namespace attn::tools
