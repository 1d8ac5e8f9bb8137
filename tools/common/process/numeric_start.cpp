// Refuses, before OpenBLAS's constructor runs, a memory limit under which OpenBLAS would retry
// forever to allocate its buffers: prints a line and exits with status 6. Every tool is linked with
// this file; it does nothing in tools that do not load OpenBLAS.

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "attnkit/error.hpp"
#include "common/process/sanitized.hpp"
#include "system/exit_status.hpp"

#ifndef ATTN_SANITIZED

// A weak reference: null if nothing else in the tool needs OpenBLAS, which is then not loaded.
extern "C" [[gnu::weak]] char* openblas_get_config();

namespace attn::tools {
namespace {

// Nothing is set up yet: no C++ library, no environ. Only system calls and plain C work.

constexpr std::size_t buffer = std::size_t{128} << 20;  // per thread, in OpenBLAS 0.3
constexpr std::size_t besides = std::size_t{8} << 20;   // needed by other constructors
constexpr int most_threads = 128;                       // the maximum of Debian's build

// Returns nullptr if `name` is not set.
const char* variable(char** environment, const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') {
      return *entry + length + 1;
    }
  }
  return nullptr;
}

// At least the number of threads for which OpenBLAS makes buffers.
int threads_at_start(char** environment) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails if there are more CPUs than the set can hold.
  const int cpus =
      sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : most_threads;
  const char* asked = variable(environment, "OMP_NUM_THREADS");
  const int wanted = asked == nullptr ? 0 : std::atoi(asked);
  return std::clamp(wanted > 0 ? std::min(wanted, cpus) : cpus, 1, most_threads);
}

bool has_room(int threads) {
  std::array<void*, most_threads + 1> parts;
  int count = 0;
  bool room = true;
  while (room && count <= threads) {
    parts[static_cast<std::size_t>(count)] =
        mmap(nullptr, count < threads ? buffer : besides, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    room = parts[static_cast<std::size_t>(count)] != MAP_FAILED;
    if (room) ++count;
  }
  for (int n = 0; n < count; ++n) {
    munmap(parts[static_cast<std::size_t>(n)], n < threads ? buffer : besides);
  }
  return room;
}

void check_room(int argc, char** argv, char** environment) {
  if (openblas_get_config == nullptr) return;
  const int threads = threads_at_start(environment);
  if (has_room(threads)) return;
  const char* path = argc > 0 ? argv[0] : "attnkit";
  const char* slash = std::strrchr(path, '/');
  const char* tool = slash == nullptr ? path : slash + 1;
  std::array<char, 512> text{};
  const int length = std::snprintf(
      text.data(), text.size(),
      "%.100s: error: out of memory: OpenBLAS needs %zu MiB more of address space to start\n"
      "%.100s: hint: raise the limit (ulimit -v)%s\n",
      tool, (buffer * static_cast<std::size_t>(threads) + besides) >> 20, tool,
      threads > 1 ? ", or set OMP_NUM_THREADS=1: each thread takes 128 MiB" : "");
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length));
  _exit(exit_status(Failure::memory));
}

// The loader calls these functions before the constructors of all libraries.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_constructors)(int, char**, char**) = check_room;

}  // namespace
}  // namespace attn::tools

#endif
