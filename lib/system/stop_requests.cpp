#include "system/stop_requests.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "system/raw_text.hpp"
#include "system/temporary.hpp"
#include "system/uninterrupted.hpp"

namespace attn {
namespace {

constexpr std::array<int, 4> stopping = {SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};

std::atomic<bool> stop_asked{false};
std::atomic<int> asked_by{0};
std::atomic<int> status_at_once{0};  // 0: signals only ask
std::atomic<const char*> line_at_once{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

std::array<struct sigaction, stopping.size()> usual_actions = {};

void restore_usual() noexcept {
  for (std::size_t n = 0; n < stopping.size(); ++n) {
    sigaction(stopping[n], &usual_actions[n], nullptr);
  }
}

void ask_for_stop(int number) {
  if (const int status = status_at_once; status != 0) {
    if (!may_end_process(number)) return;
    remove_temporaries();
    if (const char* const line = line_at_once; line != nullptr) {
      write_raw({program_invocation_short_name, ": ", line, "\n"});
    }
    _exit(status);
  }
  asked_by = number;
  stop_asked = true;
  restore_usual();
  if (number == SIGXCPU) std::signal(SIGXCPU, SIG_IGN);
}

}  // namespace

StopRequests::StopRequests() : StopRequests(0, nullptr) {}

StopRequests::StopRequests(int status, const char* line) {
  line_at_once = line;
  status_at_once = status;
  stop_asked = false;
  asked_by = 0;
  for (std::size_t n = 0; n < stopping.size(); ++n) {
    sigaction(stopping[n], nullptr, &usual_actions[n]);
  }
  for (std::size_t n = 0; n < stopping.size(); ++n) {
    if (usual_actions[n].sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = ask_for_stop;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(stopping[n], &action, nullptr);
  }
}

StopRequests::~StopRequests() {
  if (!outlasts_) restore_usual();
}

void StopRequests::work_begins() noexcept { status_at_once = 0; }

void StopRequests::outlast() noexcept {
  work_begins();
  outlasts_ = true;
}

std::atomic<bool>& StopRequests::asked() noexcept { return stop_asked; }

std::string StopRequests::signal_name() {
  const char* const name = asked_by == 0 ? nullptr : sigabbrev_np(asked_by);
  return name == nullptr ? "" : std::string("SIG") + name;
}

}  // namespace attn
