#include "claim_check/scratch_folder.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "attnkit/error.hpp"
#include "cli/terminal.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

// Processes that still run in the directory may be creating files in it.
constexpr const char* keeper =
    "read -r _; n=0; until rm -rf -- \"$1\" || [ $n = 100 ]; do "
    "chmod -R u+rwx -- \"$1\"; n=$((n + 1)); sleep 0.1; done";

// Blocks the signals that end this process. The keeper inherits the mask and keeps it.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
      sigaddset(&ending, number);
    }
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~Undisturbed() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_;
};

// Returns 0 or the error number. The child gets its own session, so no signals of a terminal reach
// it.
int spawn(pid_t& child, int input, std::string path) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string words[] = {"sh", "-c", keeper, "keeper"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                       words[3].data(), path.data(),     nullptr};
  std::string search = "PATH=/usr/bin:/bin";
  char* environment[] = {search.data(), nullptr};
  const int failure = posix_spawn(&child, "/bin/sh", &files, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failure;
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& parent)
    : path_(std::filesystem::absolute(parent) / "attn-claims-XXXXXX") {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(Failure::output, "cannot create a pipe: " + system_reason(errno));
  }
  held_ = ends[1];
  const Undisturbed until_kept;
  const bool made = mkdtemp(path_.data()) != nullptr;
  const int failure = made ? spawn(keeper_, ends[0], path_) : errno;
  close(ends[0]);
  if (failure == 0) return;
  close(held_);
  if (made) rmdir(path_.c_str());
  throw Error(Failure::output,
              (made ? "cannot create a process: " : parent + ": ") + system_reason(failure));
}

bool ScratchFolder::remove() {
  if (keeper_ >= 0) {
    close(held_);
    waitpid(keeper_, nullptr, 0);
    keeper_ = -1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);  // in case the keeper was killed
  return !std::filesystem::exists(path_, ignored);
}

ScratchFolder::~ScratchFolder() { remove(); }

}  // namespace attn::tools
