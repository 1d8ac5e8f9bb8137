#include "sinkhorn/c_transform.hpp"

#include <algorithm>
#include <initializer_list>

#include "kernel/tile.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"
#include "parallel/stop_flag.hpp"
#include "pass/one_pass.hpp"
#include "pass/potentials.hpp"
#include "tensor/buffer.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

constexpr Index block_rows = 32;

Index blocks_of(Index rows) { return (rows + block_rows - 1) / block_rows; }

// Calls use(range, scores, worker) for all tiles of the blocks of rows in `share`, from left to
// right within a block; each block is with one worker.
template <class T, class Use>
void for_each_tile(const Scores<T>& scores, const RankShare& share, int threads, const Use& use) {
  constexpr Index tile_cols = 2048;
  struct Scratch {
    Buffer<T> tile;
    typename Scores<T>::Scratch scores;
  };
  PooledVector<Scratch> scratches(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(share.own_count(), threads, [&](Index n, int worker) {
    stop_if_asked();
    const Index block = share.own_item(n);
    Scratch& scratch = scratches[static_cast<std::size_t>(worker)];
    TileRange range;
    range.row0 = block * block_rows;
    range.rows = std::min(block_rows, scores.rows() - range.row0);
    for (range.col0 = 0; range.col0 < scores.cols(); range.col0 += tile_cols) {
      range.cols = std::min(tile_cols, scores.cols() - range.col0);
      scratch.tile.reserve(range.rows * range.cols);
      const MatrixView<T> tile(scratch.tile.data(), range.rows, range.cols);
      scores.fill(range, tile, scratch.scores);
      use(range, tile, worker);
    }
  });
}

// The same for the tiles of all ranks; `use` finds the numbers of each row.
template <class T, class Use>
void find_by_row(const Scores<T>& scores, std::initializer_list<std::span<double>> numbers,
                 int threads, const Use& use) {
  const RankShare share(blocks_of(scores.rows()), Ranks::current(), Ranks::rows());
  const auto first_row = [&](Index block) { return std::min(block * block_rows, scores.rows()); };
  for_each_tile(scores, share, threads, use);
  for (const std::span<double> found : numbers) share.complete_numbers(found, first_row);
}

}  // namespace

template <class T>
void c_transform(const Scores<T>& scores, std::span<const double> col, std::span<double> row,
                 int threads) {
  const PooledVector<double> subtracted = to_subtract(col);
  std::fill(row.begin(), row.end(), minus_infinity);
  find_by_row(scores, {row}, threads, [&](const TileRange& range, MatrixView<T> tile, int) {
    for (Index i = 0; i < range.rows; ++i) {
      double& f = row[static_cast<std::size_t>(range.row0 + i)];
      f = std::max(f, kernel::row_max(tile.row(i), range.cols, subtracted.data() + range.col0));
    }
  });
}

template <class T>
void complete_columns(const Scores<T>& scores, std::span<const double> row, std::span<double> col,
                      int threads) {
  PooledVector<std::size_t> open;
  for (std::size_t j = 0; j < col.size(); ++j) {
    if (col[j] == minus_infinity) open.push_back(j);
  }
  if (open.empty()) return;
  // The largest does not depend on which thread meets which rows.
  PooledVector<PooledVector<double>> found(static_cast<std::size_t>(std::max(1, threads)));
  for (auto& largest : found) largest.assign(open.size(), minus_infinity);
  // Few problems have such columns: each rank looks at all rows by itself.
  const RankShare all(blocks_of(scores.rows()), nullptr);
  for_each_tile(scores, all, threads, [&](const TileRange& range, MatrixView<T> tile, int worker) {
    PooledVector<double>& largest = found[static_cast<std::size_t>(worker)];
    for (std::size_t n = 0; n < open.size(); ++n) {
      const Index j = static_cast<Index>(open[n]) - range.col0;
      if (j < 0 || j >= range.cols) continue;
      for (Index i = 0; i < range.rows; ++i) {
        const double f = row[static_cast<std::size_t>(range.row0 + i)];
        const auto score = static_cast<double>(tile(i, j));
        if (score != minus_infinity) largest[n] = std::max(largest[n], score - f);
      }
    }
  });
  for (std::size_t n = 0; n < open.size(); ++n) {
    for (const auto& largest : found) col[open[n]] = std::max(col[open[n]], largest[n]);
  }
}

template <class T>
ScoreRange score_range(const Scores<T>& scores, std::span<const double> row_marginal,
                       std::span<const double> col_marginal, int threads) {
  const auto size = static_cast<std::size_t>(scores.rows());
  PooledVector<double> least(size, infinity);
  PooledVector<double> largest(size, minus_infinity);
  const auto find = [&](const TileRange& range, MatrixView<T> tile, int) {
    for (Index i = 0; i < range.rows; ++i) {
      const auto at = static_cast<std::size_t>(range.row0 + i);
      if (row_marginal[at] == 0) continue;
      for (Index j = 0; j < range.cols; ++j) {
        if (col_marginal[static_cast<std::size_t>(range.col0 + j)] == 0) continue;
        const auto score = static_cast<double>(tile(i, j));
        least[at] = std::min(least[at], score);
        largest[at] = std::max(largest[at], score);
      }
    }
  };
  find_by_row(scores, {least, largest}, threads, find);
  ScoreRange found{infinity, minus_infinity};
  for (const double score : least) found.least = std::min(found.least, score);
  for (const double score : largest) found.largest = std::max(found.largest, score);
  return found;
}

#define ATTN_FOR_TYPE(T)                                                                        \
  template void c_transform(const Scores<T>&, std::span<const double>, std::span<double>, int); \
  template void complete_columns(const Scores<T>&, std::span<const double>, std::span<double>,  \
                                 int);                                                          \
  template ScoreRange score_range(const Scores<T>&, std::span<const double>,                    \
                                  std::span<const double>, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
