#include "kernel/blas.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "attnkit/error.hpp"
#include "parallel/team.hpp"

// OpenBLAS declares these in no header. They take one of its buffers, and release it for reuse.
extern "C" {
[[gnu::weak]] void* blas_memory_alloc(int);
[[gnu::weak]] void blas_memory_free(void*);
}

namespace attn::kernel {
namespace {

constexpr std::size_t buffer = std::size_t{128} << 20;            // per thread, in OpenBLAS 0.3
constexpr std::size_t other_allocations = std::size_t{16} << 20;  // for other allocations meanwhile

std::mutex preparation;
std::atomic<int> prepared{0};  ///< threads that may call BLAS at once
int buffers = 0;               ///< buffers that OpenBLAS has, one of them for itself

int borrowers = 0;  ///< BorrowedBlas that exist
int threads_of_program = 1;

bool is_pthread_build() { return openblas_get_parallel() == 1; }

/// Address space that stays reserved for the life of the object.
class Room {
 public:
  Room() = default;
  ~Room() { give_back(); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  bool take(std::size_t bytes) {
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return false;
    parts_.emplace_back(start, bytes);
    return true;
  }
  void give_back_one() {
    if (parts_.empty()) return;
    munmap(parts_.back().first, parts_.back().second);
    parts_.pop_back();
  }
  void give_back() {
    while (!parts_.empty()) give_back_one();
  }

 private:
  std::vector<std::pair<void*, std::size_t>> parts_;
};

/// OpenBLAS retries a failed allocation for ever, so all its buffers are reserved in advance.
void reserve_buffers(int threads) {
  const int missing = threads + 1 - buffers;
  if (missing <= 0 || blas_memory_alloc == nullptr || blas_memory_free == nullptr) return;
  Room room;
  Room margin;
  bool enough = margin.take(other_allocations);
  for (int n = 0; n < missing && enough; ++n) enough = room.take(buffer);
  if (!enough) {
    throw Error(Failure::memory,
                "out of memory: BLAS needs " + std::to_string(buffer >> 20) +
                    " MiB of address space for each of " + std::to_string(threads) + " threads",
                "fewer threads, or a higher limit (ulimit -v)");
  }
  std::vector<void*> all(static_cast<std::size_t>(threads));
  // One after the other, so that no other thread takes the space meanwhile. Buffers that OpenBLAS
  // has are the first that it hands out.
  const int there = std::max(0, threads - missing);
  for (int n = 0; n < threads; ++n) {
    if (n >= there) room.give_back_one();
    all[static_cast<std::size_t>(n)] = blas_memory_alloc(0);
  }
  std::for_each(all.begin(), all.end(), blas_memory_free);
  buffers += missing;
}

void prepare_blas() {
  const int threads = largest_team();
  if (prepared.load() >= threads) return;
  const std::lock_guard lock(preparation);
  if (prepared.load() >= threads) return;
  if (prepared.load() == 0) {
    buffers = std::max(1, openblas_get_num_threads());
    // Makes the pthread build use one thread from now on, and any build free the buffers of its
    // other threads. reserve_buffers then has room for those buffers.
    openblas_set_num_threads(1);
  }
  if (memory_is_limited()) reserve_buffers(threads);
  prepared.store(threads);
}

}  // namespace

// OpenMP's number of threads is a setting of each thread.
BlasCall::BlasCall() : threads_before_(omp_get_max_threads()) {
  prepare_blas();
  omp_set_num_threads(1);
}

BlasCall::~BlasCall() { omp_set_num_threads(threads_before_); }

BorrowedBlas::BorrowedBlas() {
  if (!is_pthread_build()) return;
  const std::lock_guard lock(preparation);
  if (borrowers++ > 0) return;
  threads_of_program = openblas_get_num_threads();
  openblas_set_num_threads(1);
}

BorrowedBlas::~BorrowedBlas() {
  if (!is_pthread_build()) return;
  const std::lock_guard lock(preparation);
  if (--borrowers == 0) openblas_set_num_threads(threads_of_program);
}

std::string blas_description() {
  return std::string(openblas_get_config()) +
         (is_pthread_build() ? " (pthread build, held to one thread)" : "");
}

}  // namespace attn::kernel
