#include "system/alternate_stack.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <cstddef>

namespace attn {
namespace {

// A large processor state (AMX) takes about 11 KiB; the handlers need little more.
constexpr std::size_t bytes = 64 << 10;

class AlternateStack {
 public:
  AlternateStack() noexcept {
    stack_t there = {};
    // Sanitizers install their own.
    if (sigaltstack(nullptr, &there) != 0 || (there.ss_flags & SS_DISABLE) == 0) return;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t ours = {};
    ours.ss_sp = memory;
    ours.ss_size = bytes;
    if (sigaltstack(&ours, nullptr) == 0) {
      memory_ = memory;
    } else {
      munmap(memory, bytes);
    }
  }
  ~AlternateStack() {
    if (memory_ == nullptr) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    if (sigaltstack(&none, nullptr) == 0) munmap(memory_, bytes);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace

void ensure_alternate_stack() noexcept {
  [[maybe_unused]] static thread_local const AlternateStack stack;
}

}  // namespace attn
