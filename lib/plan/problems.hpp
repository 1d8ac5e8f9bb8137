#pragma once

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/parallel.hpp"
#include "tensor/shape.hpp"

namespace attn::plan {

/// How problems share the threads: as many problems at a time as there are threads, with one thread
/// for each; or, if there are fewer problems than threads, one problem after another with all
/// threads.
struct ThreadShares {
  int at_once = 1;  ///< problems
  int inside = 1;   ///< threads of a problem

  ThreadShares(Index problems, int threads)
      : at_once(problems >= threads ? threads : 1), inside(problems >= threads ? 1 : threads) {}
};

/// Throws Error(usage) for fewer than one thread.
inline int require_threads(int threads) {
  if (threads >= 1) return threads;
  throw Error(Failure::usage, "threads is " + std::to_string(threads) + ", expected >= 1");
}

/// Calls body(problem, threads) for each position of the leading axes, counted in row-major order.
/// An Error names its problem; of several errors, the one of the first problem seen is thrown.
template <class Body>
void for_each_problem(const Shape& leading, int threads, const Body& body) {
  const Index count = element_count(leading);
  const ThreadShares shares(count, threads);
  kernel::parallel_for(count, shares.at_once, [&](Index problem, int) {
    try {
      body(problem, shares.inside);
    } catch (const Error& error) {
      if (leading.empty()) throw;
      throw error.at("problem " + to_string(unravel(problem, leading)));
    }
  });
}

}  // namespace attn::plan
