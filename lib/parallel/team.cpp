#include "parallel/team.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "attnkit/error.hpp"

namespace attn {
namespace {

std::atomic<int> largest{1};
std::atomic<int> latest{1};
std::mutex trial;

/// The bytes that OMP_STACKSIZE ("512k", "2 M") asks for; 0 if it is unset or not understood.
std::size_t stack_size_asked_for() {
  const char* text = std::getenv("OMP_STACKSIZE");
  if (text == nullptr) return 0;
  char* rest = nullptr;
  const unsigned long long number = std::strtoull(text, &rest, 10);
  if (rest == text) return 0;
  while (std::isspace(static_cast<unsigned char>(*rest)) != 0) ++rest;
  const int unit = std::tolower(static_cast<unsigned char>(*rest));
  const int shift = unit == 'b' ? 0 : unit == 'm' ? 20 : unit == 'g' ? 30 : 10;
  if (number > std::numeric_limits<std::size_t>::max() >> shift) return 0;
  return static_cast<std::size_t>(number) << shift;
}

void* wait_for_the_end(void* mutex) {
  auto* gate = static_cast<pthread_mutex_t*>(mutex);
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return nullptr;
}

/// Starts `count` threads that exist at the same time, and ends them. Returns the system's error
/// number of the first that could not be started, or 0.
int try_threads(int count) {
  std::vector<pthread_t> started;
  started.reserve(static_cast<std::size_t>(count));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // OpenMP replaces a size that it refuses by the default, which also stays in force here.
  if (const std::size_t size = stack_size_asked_for(); size > 0) {
    pthread_attr_setstacksize(&attributes, size);
  }
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&gate);
  int failure = 0;
  for (int n = 0; n < count && failure == 0; ++n) {
    pthread_t thread{};
    failure = pthread_create(&thread, &attributes, wait_for_the_end, &gate);
    if (failure == 0) started.push_back(thread);
  }
  pthread_mutex_unlock(&gate);
  for (const pthread_t thread : started) pthread_join(thread, nullptr);
  pthread_mutex_destroy(&gate);
  pthread_attr_destroy(&attributes);
  return failure;
}

bool is_limited(int resource) {
  rlimit limit{};
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

void require_team(int threads) {
  // OpenMP ends threads that a smaller team does not need. Starting them again can fail only if
  // memory is limited.
  const int there = memory_is_limited() ? latest.exchange(threads) : largest.load();
  if (threads <= there) return;
  const std::lock_guard lock(trial);
  if (const int failure = try_threads(threads - there); failure != 0) {
    latest.store(there);
    throw Error(Failure::memory,
                std::to_string(threads) +
                    " threads cannot be started: " + std::generic_category().message(failure),
                "fewer threads, or a higher limit (ulimit -v, -u)");
  }
  if (threads > largest.load()) largest.store(threads);
}

int largest_team() noexcept { return largest.load(); }

bool memory_is_limited() noexcept {
  static const bool limited = is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA);
  return limited;
}

}  // namespace attn
