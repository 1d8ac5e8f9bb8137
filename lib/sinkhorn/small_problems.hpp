#pragma once

#include <cstdint>

#include "kernel/small_scaling.hpp"

namespace attn {

/// How the problems of solve_small were solved, and how well.
struct SmallSummary {
  Index scaled = 0;          ///< problems solved by factors of kept exponentials
  Index logarithmic = 0;     ///< by logarithms: with a range above kernel::scaling_range
  double largest_error = 0;  ///< of results.error; 0 without it
};

/// Runs exactly `iterations` of Sinkhorn's iterations (kernel/small_scaling.hpp) on many small
/// problems, on up to `threads` threads. Each problem is solved by factors of exponentials if the
/// range of its scores allows, else by logarithms. Factors take the speed of float32 products; with
/// logarithms, potentials are float64. Results depend on nothing but the problem's own numbers.
/// With problems.grad_plan, results.grad_scores is made as well. Requires rows, cols >= 1,
/// iterations >= 1.
template <class T>
SmallSummary solve_small(const kernel::SmallProblems<T>& problems,
                         const kernel::SmallResults<T>& results, Index iterations, int threads);

/// Bytes of working memory of solve_small, with a gradient through `unrolled` iterations, or 0.
std::int64_t solve_small_bytes(Index count, Index rows, Index cols, Index unrolled, int threads);

}  // namespace attn
