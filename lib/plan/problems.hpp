#pragma once

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/parallel.hpp"
#include "tensor/shape.hpp"

namespace attn::plan {

/// How threads are shared: as many problems at once as there are threads, one thread for each, or
/// one problem after the other by all threads where there are fewer problems.
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

/// Calls body(problem, threads) for each position of the leading axes, in row-major order. An Error
/// of one names the problem, that of the first is thrown.
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
