#include "attn_train/stop_request.hpp"

#include <array>
#include <csignal>
#include <cstddef>

namespace attn::tools {
namespace {

constexpr std::array<int, 2> stopping = {SIGTERM, SIGUSR1};

volatile std::sig_atomic_t stop_received = 0;
std::array<struct sigaction, stopping.size()> usual = {};

extern "C" void ask_for_stop(int) {
  stop_received = 1;
  // From now on, both signals end the process.
  for (std::size_t n = 0; n < stopping.size(); ++n) sigaction(stopping[n], &usual[n], nullptr);
}

}  // namespace

StopRequests::StopRequests() {
  stop_received = 0;
  for (std::size_t n = 0; n < stopping.size(); ++n) {
    sigaction(stopping[n], nullptr, &usual[n]);
    if (usual[n].sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = ask_for_stop;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(stopping[n], &action, nullptr);
  }
}

StopRequests::~StopRequests() {
  for (std::size_t n = 0; n < stopping.size(); ++n) sigaction(stopping[n], &usual[n], nullptr);
}

bool StopRequests::received() noexcept { return stop_received != 0; }

}  // namespace attn::tools
