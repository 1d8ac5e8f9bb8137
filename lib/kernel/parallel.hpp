#pragma once

#include <omp.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "tensor/shape.hpp"

namespace attn::kernel {

/// Calls body(item, worker) for each item in [0, count), on up to `threads` OpenMP threads;
/// `worker` in [0, threads) tells apart the threads that run at once, for scratch memory. Items
/// are handed out as workers come free, so a body's result must not depend on its worker. Called
/// from inside another parallel_for it runs on the caller's thread alone. An exception ends the
/// loop: that of the lowest item seen is thrown again here.
template <class Body>
void parallel_for(Index count, int threads, const Body& body) {
  const int team = static_cast<int>(std::min<Index>(threads, count));
  if (team <= 1 || omp_in_parallel()) {
    for (Index item = 0; item < count; ++item) body(item, 0);
    return;
  }
  std::exception_ptr failure;
  Index failed_item = std::numeric_limits<Index>::max();
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (Index item = 0; item < count; ++item) {
    bool skip = false;
#pragma omp critical(attn_parallel_for)
    skip = failed_item < item;
    if (skip) continue;
    try {
      body(item, omp_get_thread_num());
    } catch (...) {
#pragma omp critical(attn_parallel_for)
      if (item < failed_item) {
        failed_item = item;
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace attn::kernel
