#include "sinkhorn/small_problems.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "parallel/parallel_for.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Problems that a thread takes at a time: a multiple of the lanes of any vector.
constexpr Index small_block = 256;

template <class T>
T* after(T* first, Index numbers) {
  return first == nullptr ? nullptr : first + numbers;
}

template <class T>
kernel::SmallProblems<T> block_of(kernel::SmallProblems<T> problems, Index first) {
  problems.count = std::min(small_block, problems.count - first);
  problems.scores += first * problems.rows * problems.cols;
  problems.grad_plan = after(problems.grad_plan, first * problems.rows * problems.cols);
  problems.row_marginal = after(problems.row_marginal, first * problems.row_step);
  problems.col_marginal = after(problems.col_marginal, first * problems.col_step);
  return problems;
}

template <class T>
kernel::SmallResults<T> block_of(const kernel::SmallResults<T>& results, Index rows, Index cols,
                                 Index first) {
  return {after(results.plan, first * rows * cols), after(results.row_potential, first * rows),
          after(results.col_potential, first * cols), after(results.error, first),
          after(results.grad_scores, first * rows * cols)};
}

// One thread's working memory.
class SmallSolver {
 public:
  /// Solves the problems of one block; returns how many were solved by logarithms.
  template <class T>
  Index solve(const kernel::SmallProblems<T>& block, const kernel::SmallResults<T>& results,
              Index iterations) {
    numbers_.reserve(kernel::small_scaling_bytes(block.rows, block.cols,
                                                 block.grad_plan != nullptr ? iterations : 0) /
                     static_cast<std::int64_t>(sizeof(double)));
    done_.resize(static_cast<std::size_t>(block.count));
    kernel::small_scaling(block, results, iterations, numbers_.data(), done_.data());
    left_.clear();
    for (Index n = 0; n < block.count; ++n) {
      if (done_[static_cast<std::size_t>(n)] == 0) left_.push_back(n);
    }
    kernel::small_logarithms(block, results, iterations, numbers_.data(), left_);
    return static_cast<Index>(left_.size());
  }

 private:
  Buffer<double> numbers_;
  PooledVector<std::uint8_t> done_;
  PooledVector<Index> left_;
};

// Solves all blocks; returns how many were solved by logarithms.
template <class T>
Index solve_blocks(const kernel::SmallProblems<T>& problems, const kernel::SmallResults<T>& results,
                   Index iterations, int threads) {
  const Index blocks = (problems.count + small_block - 1) / small_block;
  PooledVector<Index> left(static_cast<std::size_t>(blocks));
  PooledVector<SmallSolver> solvers(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(blocks, threads, [&](Index block, int worker) {
    const Index first = block * small_block;
    left[static_cast<std::size_t>(block)] = solvers[static_cast<std::size_t>(worker)].solve(
        block_of(problems, first), block_of(results, problems.rows, problems.cols, first),
        iterations);
  });
  return std::accumulate(left.begin(), left.end(), Index{0});
}

}  // namespace

template <class T>
SmallSummary solve_small(const kernel::SmallProblems<T>& problems,
                         const kernel::SmallResults<T>& results, Index iterations, int threads) {
  SmallSummary summary;
  summary.logarithmic = solve_blocks(problems, results, iterations, threads);
  summary.scaled = problems.count - summary.logarithmic;
  for (Index n = 0; results.error != nullptr && n < problems.count; ++n) {
    summary.largest_error = std::max(summary.largest_error, results.error[n]);
  }
  return summary;
}

std::int64_t solve_small_bytes(Index count, Index rows, Index cols, Index unrolled, int threads) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(Index));
  return threads *
             (kernel::small_scaling_bytes(rows, cols, unrolled) + small_block * (1 + 2 * number)) +
         (count / small_block + 1) * number;
}

template SmallSummary solve_small(const kernel::SmallProblems<float>&,
                                  const kernel::SmallResults<float>&, Index, int);
template SmallSummary solve_small(const kernel::SmallProblems<double>&,
                                  const kernel::SmallResults<double>&, Index, int);

}  // namespace attn
