#include "python/without_gil.hpp"

#include <pthread.h>
#include <pybind11/pybind11.h>
#include <signal.h>

#include <exception>
#include <thread>

#include "attnkit/context.hpp"
#include "kernel/blas.hpp"
#include "parallel/stop_flag.hpp"
#include "python/gil.hpp"

namespace attn::python {
namespace {

namespace py = pybind11;

std::atomic<bool> forked{false};

// The flag of the run for which Python's main thread waits.
std::atomic<std::atomic<bool>*> waited_for{nullptr};
std::atomic<bool> interrupted{false};
struct sigaction handler_of_python {};

extern "C" void ask_to_stop(int signal_number) {
  if (std::atomic<bool>* const flag = waited_for.load()) {
    interrupted.store(true);
    flag->store(true);
  }
  handler_of_python.sa_handler(signal_number);
}

bool is_main_thread() {
  const py::module_ threading = py::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

// Lets Ctrl-C set a flag. Python's own handler only takes a note, which Python reads later.
class Interrupts {
 public:
  explicit Interrupts(std::atomic<bool>& flag) {
    if (!is_main_thread()) return;
    before_ = waited_for.load();
    active_ = before_ != nullptr || install();  // within a callback of another call, it is there
    if (active_) waited_for.store(&flag);
  }
  ~Interrupts() {
    if (!active_) return;
    if (before_ == nullptr) sigaction(SIGINT, &handler_of_python, nullptr);
    waited_for.store(before_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  // Returns false if Python does not handle the signal.
  static bool install() {
    sigaction(SIGINT, nullptr, &handler_of_python);
    const bool is_function = (handler_of_python.sa_flags & SA_SIGINFO) == 0 &&
                             handler_of_python.sa_handler != SIG_DFL &&
                             handler_of_python.sa_handler != SIG_IGN;
    if (!is_function) return false;
    struct sigaction ours = handler_of_python;
    ours.sa_handler = ask_to_stop;
    sigaction(SIGINT, &ours, nullptr);
    return true;
  }

  std::atomic<bool>* before_ = nullptr;
  bool active_ = false;
};

// Returns whether the run ended by itself.
bool run_stoppable(std::atomic<bool>& stop, const std::function<void()>& body) {
  const StopFlag::Use obey(&stop);
  try {
    body();
    return true;
  } catch (const Stopped&) {
    return false;
  }
}

bool run_in_thread(std::atomic<bool>& stop, const std::function<void()>& body) {
  bool done = false;
  std::exception_ptr failure;
  std::thread worker([&] {
    try {
      done = run_stoppable(stop, body);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  worker.join();
  if (failure) std::rethrow_exception(failure);
  return done;
}

}  // namespace

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] {
    forked.store(true);
    waited_for.store(nullptr);
  });
}

bool run_without_gil(std::atomic<bool>& stop, const std::function<void()>& body) {
  for (;;) {
    bool done = false;
    {
      const Interrupts interrupts(stop);
      const WithoutGil released;
      const kernel::BorrowedBlas blas;
      done = forked.load() ? run_in_thread(stop, body) : run_stoppable(stop, body);
    }
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!is_main_thread() || !interrupted.exchange(false)) return false;
    stop.store(false);
  }
}

}  // namespace attn::python
