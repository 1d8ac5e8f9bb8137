// How the process ends on a signal: temporaries are removed, and a damaged input is named.

#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "attnkit/error.hpp"
#include "io/hdf5/h5.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/output.hpp"
#include "system/alternate_stack.hpp"
#include "system/exit_status.hpp"
#include "system/raw_text.hpp"
#include "system/temporary.hpp"
#include "system/uninterrupted.hpp"

namespace attn::io {
namespace {

bool (*short_of_memory)() noexcept = nullptr;

[[noreturn]] void end_with(Failure failure, const char* subject, const char* why) noexcept {
  write_raw({program_invocation_short_name, ": error: ", subject, why, "\n"});
  _exit(exit_status(failure));
}

void give_up() noexcept {
  remove_temporaries();
  end_with(Failure::input, h5::subject(), " is damaged: HDF5 does not finish reading it");
}

bool is_crash(int signal_number) noexcept {
  return signal_number == SIGSEGV || signal_number == SIGBUS || signal_number == SIGFPE ||
         signal_number == SIGILL || signal_number == SIGABRT;
}

void remove_and_die(int signal_number) {
  // A crash cannot wait: resuming the interrupted code would crash again.
  if (!is_crash(signal_number) && !may_end_process(signal_number)) return;
  remove_temporaries();
  if (is_crash(signal_number)) {
    if (short_of_memory != nullptr && short_of_memory()) {
      end_with(Failure::memory, "out of memory", "");
    }
    // Some damaged files crash HDF5 itself. This counts as bad input.
    if (h5::in_library())
      end_with(Failure::input, h5::subject(), " is damaged: HDF5 crashed on it");
  }
  // Blocked while it is handled: the second signal is delivered when this handler returns.
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void install_cleanup_handlers(bool (*memory_was_short)() noexcept) {
  short_of_memory = memory_was_short;
  ensure_alternate_stack();
  // The last five are crashes: of this code, or of HDF5 on a damaged file.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE,
                           SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    // A signal that the parent ignores (nohup, a shell's background job) stays ignored.
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = remove_and_die;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
  // A file above `ulimit -f` is reported as a failed write (EFBIG) instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  h5::start_watch(give_up);
}

}  // namespace attn::io
