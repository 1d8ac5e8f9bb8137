#include "attn_compute/score_results.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::tools {
namespace {

constexpr Index score_tile_rows = 256;
constexpr Index score_tile_cols = 512;

template <class T>
struct TileScratch {
  Buffer<T> tile;
  typename Scores<T>::Scratch terms;
};

// Writes the chosen queries of a tile.
template <class T>
void write_tile(const TileRange& range, MatrixView<const T> values, const RowSelection* chosen,
                PairWriter<T>& writer) {
  if (chosen == nullptr) return writer.write(range.row0, range.col0, values);
  for (const RowRange& part : chosen->within({range.row0, range.row0 + range.rows})) {
    writer.write(part.first, range.col0,
                 values.row_range(part.first - range.row0, part.last - part.first));
  }
}

// Makes each tile by make(range, values, scratch), on up to `threads` threads, and writes it.
template <class T, class Make>
void write_tiles(Index rows, Index cols, PairWriter<T>& writer, const RowSelection* chosen,
                 int threads, const Make& make) {
  PooledVector<TileScratch<T>> workspaces(static_cast<std::size_t>(std::max(1, threads)));
  const Index panels = (rows + score_tile_rows - 1) / score_tile_rows;
  parallel_for(panels, threads, [&](Index panel, int worker) {
    TileScratch<T>& scratch = workspaces[static_cast<std::size_t>(worker)];
    const Index row0 = panel * score_tile_rows;
    const Index count = std::min(score_tile_rows, rows - row0);
    if (chosen != nullptr && !chosen->meets({row0, row0 + count})) return;
    scratch.tile.reserve(score_tile_rows * score_tile_cols);
    for (Index col0 = 0; col0 < cols; col0 += score_tile_cols) {
      const TileRange range{row0, count, col0, std::min(score_tile_cols, cols - col0)};
      const MatrixView<T> values(scratch.tile.data(), range.rows, range.cols);
      make(range, values, scratch);
      write_tile<T>(range, values, chosen, writer);
    }
  });
}

template <class T>
void require_energies(const TileRange& range, MatrixView<const T> values, bool may_forbid) {
  for (Index i = 0; i < range.rows; ++i) {
    for (Index j = 0; j < range.cols; ++j) {
      const T value = values(i, j);
      const bool forbids = may_forbid && value == -std::numeric_limits<T>::infinity();
      if (std::isfinite(value) || forbids) continue;
      throw_beyond_range<T>("the energy of query " + std::to_string(range.row0 + i) + " and key " +
                            std::to_string(range.col0 + j) + " is beyond the range of");
    }
  }
}

}  // namespace

template <class T>
void write_scores(const Scores<T>& scores, PairWriter<T>& writer, const RowSelection* chosen,
                  int threads) {
  write_tiles<T>(scores.rows(), scores.cols(), writer, chosen, threads,
                 [&](const TileRange& range, MatrixView<T> values, TileScratch<T>& scratch) {
                   scores.fill(range, values, scratch.terms);
                 });
}

template <class T>
void write_energies(const Energy<T>& energy, PairWriter<T>& writer, const RowSelection* chosen,
                    int threads) {
  write_tiles<T>(energy.rows(), energy.cols(), writer, chosen, threads,
                 [&](const TileRange& range, MatrixView<T> values, TileScratch<T>&) {
                   energy.fill(range, values);
                   require_energies<T>(range, values, energy.may_forbid());
                 });
}

std::int64_t score_results_bytes(std::size_t element_size, int threads) {
  // The tile; bias, preference and the energy of ready-made scores; the mask.
  const auto bytes = static_cast<std::int64_t>(4 * element_size + 1);
  return threads * (score_tile_rows * score_tile_cols * bytes + 5 * buffer_margin);
}

#define ATTN_FOR_TYPE(T)                                                                  \
  template void write_scores(const Scores<T>&, PairWriter<T>&, const RowSelection*, int); \
  template void write_energies(const Energy<T>&, PairWriter<T>&, const RowSelection*, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
