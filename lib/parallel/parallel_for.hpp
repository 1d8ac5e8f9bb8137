#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>

#include "parallel/ranks.hpp"
#include "parallel/stop_flag.hpp"
#include "parallel/team.hpp"
#include "tensor/memory_pool.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The next item of a worker's share, on its own cache line.
struct alignas(64) ItemShare {
  std::atomic<Index> next;
};

/// Calls body(item, worker) for each item in [0, count), on up to `threads` OpenMP threads;
/// `worker` in [0, threads) identifies the thread, for scratch memory. Each thread works through
/// its own share first, then through the rest of the others' shares; so a body's result must not
/// depend on its worker. The share is the same in every loop with the same count, as its data may
/// still be in the thread's cache. Inside another parallel_for, all items run on the caller's
/// thread. Workers allocate from the caller's MemoryPool. Loops in a body are not divided among
/// ranks. An exception ends the loop; the exception of the lowest item seen is rethrown here. Once
/// the caller's StopFlag is set, no further item begins and Stopped is thrown, unless a lower item
/// failed. If the threads cannot be started, throws Error(memory) and calls nothing.
template <class Body>
void parallel_for(Index count, int threads, const Body& body) {
  const int team = static_cast<int>(std::min<Index>(threads, count));
  const Ranks::Use none(nullptr);
  if (team <= 1 || omp_in_parallel()) {
    for (Index item = 0; item < count; ++item) {
      stop_if_asked();
      body(item, 0);
    }
    return;
  }
  require_team(team);
  std::exception_ptr failure;
  std::atomic<Index> failed_item = std::numeric_limits<Index>::max();
  PooledVector<ItemShare> shares(static_cast<std::size_t>(team));
  for (int n = 0; n < team; ++n) shares[static_cast<std::size_t>(n)].next = n * count / team;
  MemoryPool* const pool = MemoryPool::current();
  const std::atomic<bool>* const stop = StopFlag::current();
#pragma omp parallel num_threads(team)
  for (int n = 0; n < team; ++n) {
    const int worker = omp_get_thread_num();
    const MemoryPool::Use use(pool);
    const StopFlag::Use obey(stop);
    const int share = (worker + n) % team;
    const Index end = (share + 1) * count / team;
    for (;;) {
      const Index item = shares[static_cast<std::size_t>(share)].next++;
      if (item >= end || item > failed_item) break;
      try {
        stop_if_asked();
        body(item, worker);
      } catch (...) {
#pragma omp critical(attn_parallel_for)
        if (item < failed_item) {
          failed_item = item;
          failure = std::current_exception();
        }
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace attn
