#include "sinkhorn/divergence.hpp"

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "sinkhorn/plan_sums.hpp"
#include "sinkhorn/relative_energy.hpp"
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

template <class T>
SinkhornSolution solve_one(const Scores<T>& scores, const Marginals& marginals,
                           const SinkhornOptions& options, int threads) {
  if (!marginals.penalties) return solve_sinkhorn<T>(scores, marginals, options, {}, threads);
  const RelativeEnergy<T> energy(scores, marginals.row, marginals.col);
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  SinkhornSolution found = solve_sinkhorn<T>(Scores<T>(terms), marginals, options, {}, threads);
  // The same plan, of the given scores.
  Potentials& potentials = found.potentials;
  for (std::size_t i = 0; i < potentials.row.size(); ++i) potentials.row[i] -= energy.row(i);
  for (std::size_t j = 0; j < potentials.col.size(); ++j) potentials.col[j] -= energy.col(j);
  PlanSums<T> sums(scores);
  show_weights<T>(scores, potentials, 0, {&sums}, threads);
  found.summary.score = sums.score();
  return found;
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
  const auto with_itself = [&](const Scores<T>& own, const PooledVector<double>& masses) {
    return solve_one<T>(own, {masses, masses, marginals.penalties, true}, options, threads);
  };
  found.between = solve_one<T>(scores.between, marginals, options, threads);
  found.row = with_itself(scores.row, marginals.row);
  found.col = with_itself(scores.col, marginals.col);
  const SinkhornSummary& ab = found.between.summary;
  const SinkhornSummary& aa = found.row.summary;
  const SinkhornSummary& bb = found.col.summary;
  found.value = ab.dual - (aa.dual + bb.dual) / 2;
  found.sharp = marginals.penalties ? std::numeric_limits<double>::quiet_NaN()
                                    : (aa.score + bb.score) / 2 - ab.score;
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
