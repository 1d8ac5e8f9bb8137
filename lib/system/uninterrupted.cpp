#include "system/uninterrupted.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace attn {
namespace {

constexpr int ending = -1;
std::atomic<int> sections{0};  // how many exist, or `ending`
std::atomic<int> waiting{0};   // the deferred signal, or 0
static_assert(std::atomic<int>::is_always_lock_free);

[[noreturn]] void wait_for_the_end() noexcept {
  for (;;) pause();
}

}  // namespace

Uninterrupted::Uninterrupted() noexcept {
  int before = sections.load();
  do {
    if (before == ending) wait_for_the_end();
  } while (!sections.compare_exchange_weak(before, before + 1));
}

Uninterrupted::~Uninterrupted() {
  if (sections.fetch_sub(1) != 1) return;
  if (const int signal_number = waiting.exchange(0); signal_number != 0) raise(signal_number);
}

bool may_end_process(int signal_number) noexcept {
  // Stored first, so that a section that ends after the comparison finds the signal.
  waiting.store(signal_number);
  int before = 0;
  if (sections.compare_exchange_strong(before, ending)) return true;
  if (before == ending) wait_for_the_end();
  return false;
}

}  // namespace attn
