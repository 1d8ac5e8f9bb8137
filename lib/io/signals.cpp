// How the process ends by a signal: without temporaries, and with a line where an input is at
// fault.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/alternate_stack.hpp"
#include "io/h5.hpp"
#include "io/h5_watch.hpp"
#include "io/output.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

void write_text(const char* text) noexcept {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

[[noreturn]] void blame_input(const char* why) noexcept {
  write_text(program_invocation_short_name);
  write_text(": error: ");
  write_text(h5::subject());
  write_text(" is damaged: ");
  write_text(why);
  write_text("\n");
  _exit(static_cast<int>(Failure::input));
}

void give_up() noexcept {
  remove_temporaries();
  blame_input("HDF5 does not come to an end with it");
}

bool is_crash(int signal_number) noexcept {
  return signal_number == SIGSEGV || signal_number == SIGBUS || signal_number == SIGFPE ||
         signal_number == SIGILL || signal_number == SIGABRT;
}

void remove_and_die(int signal_number) {
  remove_temporaries();
  // Some damaged files make HDF5 itself crash. That is bad input.
  if (is_crash(signal_number) && h5::in_library()) blame_input("HDF5 crashed over it");
  // Blocked while it is handled: the second one is delivered when this handler returns.
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void install_cleanup_handlers() {
  ensure_alternate_stack();
  // The last five are crashes: of this code, or of HDF5 over a damaged file.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE,
                           SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    // A signal that the parent ignores (nohup, a shell's background job) stays ignored.
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = remove_and_die;
    action.sa_flags = SA_ONSTACK;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
  // A file above `ulimit -f` is a failed write (EFBIG) to report, not a reason to die half-way.
  signal(SIGXFSZ, SIG_IGN);
  h5::start_watch(give_up);
}

}  // namespace attn::io
