#include "system/alternate_stack.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstddef>
#include <optional>

namespace attn {
namespace {

// A large processor state (AMX) takes about 11 KiB; the handlers need little more.
constexpr std::size_t bytes = 64 << 10;

// Frees the stack of a thread that ends.
void remove_stack(void* memory) {
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  if (sigaltstack(&none, nullptr) == 0) munmap(memory, bytes);
}

// Not a thread_local object with a destructor: glibc aborts where memory for its entry is short.
std::optional<pthread_key_t> stack_key() noexcept {
  static const std::optional<pthread_key_t> key = []() -> std::optional<pthread_key_t> {
    pthread_key_t made = 0;
    if (pthread_key_create(&made, remove_stack) != 0) return std::nullopt;
    return made;
  }();
  return key;
}

}  // namespace

void ensure_alternate_stack() noexcept {
  static thread_local bool looked = false;
  if (looked) return;
  looked = true;
  stack_t there = {};
  // Sanitizers install their own.
  if (sigaltstack(nullptr, &there) != 0 || (there.ss_flags & SS_DISABLE) == 0) return;
  const std::optional<pthread_key_t> key = stack_key();
  if (!key) return;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t ours = {};
  ours.ss_sp = memory;
  ours.ss_size = bytes;
  if (sigaltstack(&ours, nullptr) != 0) {
    munmap(memory, bytes);
  } else if (pthread_setspecific(*key, memory) != 0) {
    remove_stack(memory);
  }
}

}  // namespace attn
