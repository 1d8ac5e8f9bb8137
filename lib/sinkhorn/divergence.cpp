#include "sinkhorn/divergence.hpp"

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

// Throws Error(input) for the first pair of tiles in which s_ij ≠ s_ji.
template <class T>
void require_symmetric(const Scores<T>& scores) {
  constexpr Index size = 256;
  Buffer<T> upper(size * size);
  Buffer<T> lower(size * size);
  typename Scores<T>::Scratch scratch;
  for (Index row0 = 0; row0 < scores.rows(); row0 += size) {
    const Index rows = std::min(size, scores.rows() - row0);
    for (Index col0 = row0; col0 < scores.cols(); col0 += size) {
      const Index cols = std::min(size, scores.cols() - col0);
      const MatrixView<T> one(upper.data(), rows, cols);
      const MatrixView<T> other(lower.data(), cols, rows);
      scores.fill({row0, rows, col0, cols}, one, scratch);
      scores.fill({col0, cols, row0, rows}, other, scratch);
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          if (one(i, j) == other(j, i)) continue;
          throw Error(Failure::input,
                      "a divergence requires a symmetric cost, but [" + std::to_string(row0 + i) +
                          ", " + std::to_string(col0 + j) + "] differs from [" +
                          std::to_string(col0 + j) + ", " + std::to_string(row0 + i) + "]");
        }
      }
    }
  }
}

}  // namespace

SolveStatus SinkhornDivergence::status() const {
  return std::max({between.summary.status, row.summary.status, col.summary.status});
}

Index SinkhornDivergence::iterations() const {
  return std::max({between.summary.iterations, row.summary.iterations, col.summary.iterations});
}

double solution_error(const SinkhornDivergence& divergence, std::optional<double> usual) {
  double largest = 0;
  for (const auto* const one : {&divergence.between, &divergence.row, &divergence.col}) {
    largest = std::max(largest, solution_error(one->summary, usual));
  }
  return largest;
}

template <class T>
SinkhornDivergence solve_divergence(const DivergenceScores<T>& scores, const Marginals& marginals,
                                    const SinkhornOptions& options, int threads) {
  // Scores of points with themselves are symmetric up to the rounding of their products.
  if (&scores.row == &scores.between) require_symmetric(scores.between);
  SinkhornDivergence found;
  found.between = solve_sinkhorn<T>(scores.between, marginals, options, {}, threads);
  found.row =
      solve_sinkhorn<T>(scores.row, {marginals.row, marginals.row, {}, true}, options, {}, threads);
  found.col =
      solve_sinkhorn<T>(scores.col, {marginals.col, marginals.col, {}, true}, options, {}, threads);
  const SinkhornSummary& ab = found.between.summary;
  const SinkhornSummary& aa = found.row.summary;
  const SinkhornSummary& bb = found.col.summary;
  found.value = ab.dual - (aa.dual + bb.dual) / 2;
  found.sharp = (aa.score + bb.score) / 2 - ab.score;
  found.lower = found.value - (aa.gap + bb.gap) / 2;
  found.upper = found.value + ab.gap;
  return found;
}

#define ATTN_FOR_TYPE(T)                                                                     \
  template SinkhornDivergence solve_divergence(const DivergenceScores<T>&, const Marginals&, \
                                               const SinkhornOptions&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
