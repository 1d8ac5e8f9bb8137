#pragma once

#include <cstdint>

#include "kernel/small_scaling.hpp"

namespace attn {

/// How the problems of solve_small were solved, and how well.
struct SmallSummary {
  Index scaled = 0;          ///< by factors of exponentials that are kept
  Index logarithmic = 0;     ///< by logarithms: a range of scores above kernel::scaling_range
  double largest_error = 0;  ///< of results.error; 0 without it
};

/// Runs exactly `iterations` of Sinkhorn's iterations (kernel/small_scaling.hpp) on many small
/// problems, on up to `threads` threads. Each problem is solved by factors of exponentials if the
/// range of its scores allows, else by logarithms: in the first form float32 is as fast as its
/// products, in the second potentials are float64. Results depend on nothing but the problem's own
/// numbers. Requires rows, cols >= 1, iterations >= 1.
template <class T>
SmallSummary solve_small(const kernel::SmallProblems<T>& problems,
                         const kernel::SmallResults<T>& results, Index iterations, int threads);

/// Bytes of working memory of solve_small.
std::int64_t solve_small_bytes(Index count, Index rows, Index cols, int threads);

}  // namespace attn
