#include "cli/resolve.hpp"

#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "attnkit/error.hpp"
#include "cli/values.hpp"

namespace attn::cli {
namespace {

constexpr Index most_threads = 65536;

std::optional<int> thread_count(const std::string& text) {
  const std::optional<Index> count = to_integer(text);
  if (!count || *count < 1 || *count > most_threads) return std::nullopt;
  return static_cast<int>(*count);
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

int cpus_allowed() {
  // The kernel returns EINVAL for a set smaller than its own, whose size is not available.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(capacity));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const int failed = sched_getaffinity(0, bytes, set);
    const int error = errno;
    const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (failed == 0) return count > 0 ? count : 1;
    if (error != EINVAL) break;
  }
  const unsigned cpus = std::thread::hardware_concurrency();
  return cpus > 0 ? static_cast<int>(cpus) : 1;
}

int resolve_threads(std::optional<Index> given, const Environment& environment) {
  if (given) return static_cast<int>(*given);
  if (const auto ours = environment("ATTN_NUM_THREADS")) {
    const std::optional<int> count = thread_count(*ours);
    if (!count) {
      throw Error(Failure::usage, "the environment's ATTN_NUM_THREADS is " + *ours +
                                      ", expected an integer in [1, 65536]");
    }
    return *count;
  }
  if (const auto openmp = environment("OMP_NUM_THREADS")) {
    if (const auto count = thread_count(openmp->substr(0, openmp->find(',')))) return *count;
  }
  if (const auto slurm = environment("SLURM_CPUS_PER_TASK")) {
    if (const auto count = thread_count(*slurm)) return *count;
  }
  return cpus_allowed();
}

std::string resolve_tmpdir(const std::string& given, const Environment& environment) {
  if (!given.empty()) return given;
  return environment("TMPDIR").value_or("/tmp");
}

}  // namespace attn::cli
