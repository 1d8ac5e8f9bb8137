// Libraries do not always report a failed allocation: they report a damaged file, crash, or call
// exit. To detect it, and its size, every allocation of the process passes through this file to the
// next allocator (LD_PRELOAD, else the C library).

#include "common/process/memory_watch.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "attnkit/error.hpp"
#include "cli/memory_hint.hpp"
#include "common/process/sanitized.hpp"
#include "io/output.hpp"
#include "system/exit_status.hpp"
#include "system/raw_text.hpp"
#include "system/temporary.hpp"

namespace {

constexpr std::size_t most_sensible = std::size_t{1} << 30;

std::atomic<bool> was_short{false};
std::atomic<int> finished{-1};  // the status, once the output is in place

[[noreturn]] void end_for_memory() noexcept {
  if (const int status = finished.load(); status >= 0) _exit(status);
  const char* name = program_invocation_short_name;
  attn::remove_temporaries();
  attn::write_raw(
      {name, ": error: out of memory\n", name, ": hint: ", attn::cli::less_memory_hint, "\n"});
  _exit(attn::exit_status(attn::Failure::memory));
}

// HDF5 does not survive a failed allocation everywhere: it may crash, corrupt its memory, call
// exit, or continue as if the data did not exist. The process ends before that.
[[maybe_unused]] void note(const void* memory, std::size_t size) noexcept {
  if (memory != nullptr || size == 0 || size > most_sensible) return;
  was_short.store(true);
  if (attn::io::hdf5_is_busy()) end_for_memory();
}

}  // namespace

#ifndef ATTN_SANITIZED

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

// The function that would be called without this file. Only while it is being looked up, the C
// library's function is used.
template <class Function>
Function* next(std::atomic<Function*>& known, const char* name, Function* meanwhile) noexcept {
  Function* found = known.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  static thread_local bool looking = false;
  if (looking) return meanwhile;
  looking = true;
  void* symbol = dlsym(RTLD_NEXT, name);
  looking = false;
  if (symbol == nullptr) return meanwhile;
  std::memcpy(&found, &symbol, sizeof(found));
  known.store(found, std::memory_order_release);
  return found;
}

int libc_posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

using Malloc = void*(std::size_t);
using Calloc = void*(std::size_t, std::size_t);
using Realloc = void*(void*, std::size_t);
using PosixMemalign = int(void**, std::size_t, std::size_t);
std::atomic<Malloc*> next_malloc{nullptr};
std::atomic<Calloc*> next_calloc{nullptr};
std::atomic<Realloc*> next_realloc{nullptr};
std::atomic<Calloc*> next_aligned_alloc{nullptr};
std::atomic<Calloc*> next_memalign{nullptr};
std::atomic<PosixMemalign*> next_posix_memalign{nullptr};

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  void* memory = next(next_malloc, "malloc", __libc_malloc)(size);
  note(memory, size);
  return memory;
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  void* memory = next(next_calloc, "calloc", __libc_calloc)(count, size);
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes)) note(memory, bytes);
  return memory;
}

void* realloc(void* old, std::size_t size) noexcept {
  void* memory = next(next_realloc, "realloc", __libc_realloc)(old, size);
  note(memory, size);
  return memory;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = next(next_aligned_alloc, "aligned_alloc", __libc_memalign)(alignment, size);
  note(memory, size);
  return memory;
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  void* memory = next(next_memalign, "memalign", __libc_memalign)(alignment, size);
  note(memory, size);
  return memory;
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  const int failure =
      next(next_posix_memalign, "posix_memalign", libc_posix_memalign)(memory, alignment, size);
  if (failure == ENOMEM) note(nullptr, size);
  return failure;
}
}

#endif

namespace attn::tools {
namespace {

std::atomic<bool> in_order{false};

void terminate() noexcept {
  if (memory_was_short()) end_for_memory();
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_for_memory();
  } catch (...) {
  }
  std::abort();
}

void at_exit() {
  if (in_order.load()) return;
  remove_temporaries();
  if (memory_was_short()) end_for_memory();
}

// Before main, since its declarations allocate, too.
[[maybe_unused]] const bool terminates_here = (std::set_terminate(terminate), true);

}  // namespace

bool memory_was_short() noexcept { return was_short.load(); }

void watch_memory() { std::atexit(at_exit); }

void finish_with(int status) noexcept { finished.store(status); }

void leave_in_order() noexcept { in_order.store(true); }

void require_memory() {
  if (memory_was_short()) throw Error(Failure::memory, "out of memory", cli::less_memory_hint);
}

void throw_for_memory() {
  try {
    throw;
  } catch (const Error& error) {
    if (error.failure() == Failure::input) require_memory();
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    require_memory();
    throw;
  }
}

}  // namespace attn::tools
