#include "io/hdf5/h5_watch.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace attn::io::h5 {
namespace {

constexpr double most_seconds = 10;
constexpr std::int64_t usual_bytes = 64 << 20;
constexpr double slowest_bytes_per_second = 16 << 20;

// Read by the handler, which may run in any thread.
std::atomic<unsigned> beats{0};
std::atomic<bool> inside{false};
std::atomic<clockid_t> clock_inside{CLOCK_PROCESS_CPUTIME_ID};
std::atomic<int> unwatched{0};
std::atomic<double> allowed{most_seconds};
static_assert(std::atomic<double>::is_always_lock_free);

void (*when_stuck)() noexcept = nullptr;

clockid_t own_clock() noexcept {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  pthread_getcpuclockid(pthread_self(), &clock);
  return clock;
}

double seconds(clockid_t clock) noexcept {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The state seen by the handler's last run. Handlers of two ticks may overlap in two threads: the
// second one returns without doing anything.
std::atomic_flag looking = ATOMIC_FLAG_INIT;
unsigned seen_beats = 0;
double seen_seconds = 0;

void look() noexcept {
  if (!inside.load() || unwatched.load() > 0) {
    seen_beats = beats.load() - 1;
    return;
  }
  const unsigned now = beats.load();
  const double used = seconds(clock_inside.load());
  if (now != seen_beats) {
    seen_beats = now;
    seen_seconds = used;
  } else if (used - seen_seconds > allowed.load()) {
    // A last check: the call may have ended meanwhile.
    if (beats.load() == now && inside.load()) when_stuck();
  }
}

void tick(int) {
  const int before = errno;
  if (!looking.test_and_set()) {
    look();
    looking.clear();
  }
  errno = before;
}

}  // namespace

void beat() noexcept { beats.fetch_add(1, std::memory_order_relaxed); }

void enter_library() noexcept {
  thread_local const clockid_t clock = own_clock();
  clock_inside.store(clock, std::memory_order_relaxed);
  beat();
  inside.store(true, std::memory_order_release);
}

void leave_library() noexcept {
  inside.store(false, std::memory_order_release);
  beat();
}

Unwatched::Unwatched() noexcept { ++unwatched; }
Unwatched::~Unwatched() {
  beat();
  --unwatched;
}

Allowance::Allowance(std::int64_t bytes) noexcept {
  const std::int64_t more = std::max<std::int64_t>(bytes - usual_bytes, 0);
  allowed.store(most_seconds + static_cast<double>(more) / slowest_bytes_per_second);
}
Allowance::~Allowance() {
  beat();
  allowed.store(most_seconds);
}

void start_watch(void (*give_up)() noexcept) noexcept {
  when_stuck = give_up;
  struct sigaction action {};
  action.sa_handler = tick;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (sigaction(SIGPROF, &action, nullptr) != 0) return;
  const itimerval each_second{{1, 0}, {1, 0}};
  setitimer(ITIMER_PROF, &each_second, nullptr);
}

}  // namespace attn::io::h5
