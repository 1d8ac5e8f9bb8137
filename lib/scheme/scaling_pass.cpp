#include "scheme/scaling_pass.hpp"

#include <algorithm>

#include "kernel/parallel.hpp"
#include "kernel/running.hpp"
#include "scheme/one_pass.hpp"

namespace attn {
namespace {

// Rows of a block that are multiplied from both sides before the next: read once from memory, they
// should then be found in the second-level cache.
constexpr Index cached_bytes = Index{128} << 10;
constexpr Index fewest_rows = 8;

template <class T>
Index rows_at_a_time(const Partition& partition) {
  const Index line_bytes = std::max<Index>(1, partition.cols) * static_cast<Index>(sizeof(T));
  Index rows = partition.panel;
  while (rows > fewest_rows && rows * line_bytes > cached_bytes) rows /= 2;
  return rows;
}

template <class T>
struct Tile {
  Index col0 = 0;
  MatrixView<const T> values;
};

// One thread's scratch.
template <class T>
struct Workspace {
  Buffer<T> panel;
  typename Scores<T>::Scratch scratch;
  std::vector<Tile<T>> tiles;  // of a block, without empty ones
  std::vector<double> row_sum;
  std::vector<T> row_factor;
};

template <class T>
class ScalingRun {
 public:
  explicit ScalingRun(const ScalingPass<T>& pass)
      : pass_(pass),
        partition_(pass.kernel->partition()),
        rows_(rows_at_a_time<T>(partition_)),
        col_sums_(static_cast<std::size_t>(partition_.slots)) {}

  void run(int threads) {
    std::vector<Workspace<T>> workspaces(static_cast<std::size_t>(std::max(1, threads)));
    kernel::parallel_for(partition_.slots, threads, [&](Index slot, int worker) {
      Workspace<T>& work = workspaces[static_cast<std::size_t>(worker)];
      col_sums_[static_cast<std::size_t>(slot)].assign(pass_.col_sum.size(), 0.0);
      for (Index b = partition_.first_panel(slot); b < partition_.first_panel(slot + 1); ++b) {
        const Index first = b * partition_.panel;
        run_block({first, std::min(partition_.panel, partition_.rows - first), 0, partition_.cols},
                  slot, work);
      }
    });
    std::fill(pass_.col_sum.begin(), pass_.col_sum.end(), 0.0);
    for (const std::vector<double>& part : col_sums_) {
      for (std::size_t j = 0; j < part.size(); ++j) pass_.col_sum[j] += part[j];
    }
  }

 private:
  void run_block(const TileRange& block, Index slot, Workspace<T>& work) {
    work.row_sum.assign(static_cast<std::size_t>(block.rows), 0.0);
    work.row_factor.resize(static_cast<std::size_t>(block.rows));
    const bool made = gather_tiles(block, work);
    for (Index first = 0; first < block.rows; first += rows_) {
      const Index count = std::min(rows_, block.rows - first);
      if (!made) add_rows(first, count, work);
      find_factors(block.row0, first, count, work);
      std::vector<double>& sums = col_sums_[static_cast<std::size_t>(slot)];
      for (const Tile<T>& tile : work.tiles) {
        kernel::add_scaled_columns(tile.values.row_range(first, count),
                                   work.row_factor.data() + first, sums.data() + tile.col0);
      }
    }
  }

  // Tiles that are made are multiplied while they are in cache; a row's sum is taken tile by tile
  // either way. False: they were all kept, and are not multiplied.
  bool gather_tiles(const TileRange& block, Workspace<T>& work) {
    work.tiles.clear();
    bool made = false;
    TileRange range = block;
    for (range.col0 = 0; range.col0 < block.cols; range.col0 += row_tile_cols) {
      range.cols = std::min(row_tile_cols, block.cols - range.col0);
      if (pass_.kernel->scores().empty(range)) continue;
      // What is kept is kept by whole blocks.
      if (work.tiles.empty() && !pass_.kernel->has(range)) {
        made = true;
        work.panel.reserve(block.rows * block.cols);
      }
      const MatrixView<T> room(made ? work.panel.data() + block.rows * range.col0 : nullptr,
                               range.rows, range.cols);
      work.tiles.push_back({range.col0, pass_.kernel->tile(range, room, work.scratch)});
      if (made) add_tile(work.tiles.back(), 0, block.rows, work);
    }
    return made;
  }

  void add_rows(Index first, Index count, Workspace<T>& work) const {
    for (const Tile<T>& tile : work.tiles) add_tile(tile, first, count, work);
  }

  void add_tile(const Tile<T>& tile, Index first, Index count, Workspace<T>& work) const {
    if (pass_.col_scale.empty()) return;
    kernel::add_row_products(tile.values.row_range(first, count),
                             pass_.col_scale.data() + tile.col0, work.row_sum.data() + first);
  }

  void find_factors(Index row0, Index first, Index count, Workspace<T>& work) const {
    for (Index i = first; i < first + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto row = static_cast<std::size_t>(row0 + i);
      const double scale = pass_.row_scale.empty() ? 1 : pass_.row_scale[row];
      const double sum = work.row_sum[at];
      if (pass_.col_scale.empty()) {
        work.row_factor[at] = static_cast<T>(scale);
      } else {
        work.row_factor[at] = sum > 0 ? static_cast<T>(scale / sum) : T{0};
        pass_.row_sum[row] = sum;
      }
    }
  }

  const ScalingPass<T>& pass_;
  const Partition& partition_;
  const Index rows_;
  std::vector<std::vector<double>> col_sums_;  // by slot
};

}  // namespace

template <class T>
void run_scaling(const ScalingPass<T>& pass, int threads) {
  ScalingRun<T>(pass).run(threads);
}

template void run_scaling(const ScalingPass<float>&, int);
template void run_scaling(const ScalingPass<double>&, int);

}  // namespace attn
