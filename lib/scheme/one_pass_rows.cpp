#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/parallel.hpp"
#include "kernel/running.hpp"
#include "scheme/one_pass.hpp"

namespace attn {
namespace {

// A tile of scores with its keys and values should stay in the second-level cache; a multiple of
// the register tile's six rows.
constexpr Index tile_rows = 96;
constexpr Index tile_cols = 256;
constexpr Index most_slots = 1024;  // nothing is kept per slot

Partition row_blocks(Index rows, Index cols) {
  Partition partition;
  partition.order = Order::row_panels;
  partition.rows = rows;
  partition.cols = cols;
  partition.panel = tile_rows;
  partition.panels = (rows + tile_rows - 1) / tile_rows;
  partition.slots = std::min(most_slots, partition.panels);
  return partition;
}

// One thread's scratch.
template <class T>
struct Workspace {
  Buffer<T> tile{tile_rows * tile_cols};
  typename Scores<T>::Scratch scratch;
  std::vector<T> max = std::vector<T>(tile_rows);
  std::vector<T> factor = std::vector<T>(tile_rows);
  std::vector<double> sum = std::vector<double>(tile_rows);
};

// The running softmax: max_i and sum_i = Σ_j exp(s_ij − max_i) of a block's rows, the exponentials
// shown. Scores that need no maximum removed have 0 for it.
template <class T>
class Block {
 public:
  Block(const Scores<T>& scores, const std::vector<Observer<T>*>& observers, Index slot,
        Workspace<T>& work)
      : scores_(scores), observers_(observers), slot_(slot), work_(work) {
    const T start = scores.near_zero() ? T{0} : -std::numeric_limits<T>::infinity();
    std::fill(work.max.begin(), work.max.end(), start);
    std::fill(work.sum.begin(), work.sum.end(), 0.0);
  }

  void add(const TileRange& range) {
    const MatrixView<T> tile(work_.tile.data(), range.rows, range.cols);
    if (scores_.near_zero()) {
      scores_.fill_exponentials(range, tile, work_.scratch, work_.sum.data(), nullptr);
    } else {
      scores_.fill(range, tile, work_.scratch);
      if (kernel::running_softmax(tile, work_.max.data(), work_.sum.data(), work_.factor.data())) {
        scale(range);
      }
    }
    for (Observer<T>* observer : observers_) observer->observe(WeightTile<T>{range, tile}, slot_);
  }

  // Normalises the rows of `range` and writes their potentials.
  void finish(const TileRange& range, std::span<double> row) {
    for (Index i = 0; i < range.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool empty = work_.sum[at] == 0;
      row[static_cast<std::size_t>(range.row0 + i)] =
          empty ? -std::numeric_limits<double>::infinity()
                : static_cast<double>(work_.max[at]) + std::log(work_.sum[at]);
      work_.factor[at] = empty ? T{0} : static_cast<T>(1 / work_.sum[at]);
    }
    scale(range);
  }

 private:
  void scale(const TileRange& range) {
    for (Observer<T>* observer : observers_) {
      observer->scale_rows(range.row0, range.rows, work_.factor.data(), slot_);
    }
  }

  const Scores<T>& scores_;
  const std::vector<Observer<T>*>& observers_;
  Index slot_;
  Workspace<T>& work_;
};

}  // namespace

template <class T>
bool all_by_row(const std::vector<Observer<T>*>& observers) {
  return std::all_of(observers.begin(), observers.end(),
                     [](const Observer<T>* observer) { return observer->by_row(); });
}

template <class T>
void one_pass_rows(const Scores<T>& scores, std::span<double> row,
                   const std::vector<Observer<T>*>& observers, int threads) {
  const Partition partition = row_blocks(scores.rows(), scores.cols());
  for (Observer<T>* observer : observers) observer->start(partition);
  std::vector<Workspace<T>> workspaces(static_cast<std::size_t>(std::max(1, threads)));
  kernel::parallel_for(partition.slots, threads, [&](Index slot, int worker) {
    for (Index b = partition.first_panel(slot); b < partition.first_panel(slot + 1); ++b) {
      Block<T> block(scores, observers, slot, workspaces[static_cast<std::size_t>(worker)]);
      const Index first = b * tile_rows;
      TileRange range{first, std::min(tile_rows, partition.rows - first), 0, 0};
      for (; range.col0 < partition.cols; range.col0 += tile_cols) {
        range.cols = std::min(tile_cols, partition.cols - range.col0);
        if (!scores.empty(range)) block.add(range);
      }
      block.finish(range, row);
    }
  });
  for (Observer<T>* observer : observers) observer->finish();
}

std::int64_t one_pass_rows_bytes(std::size_t element_size, int threads) {
  const auto element = static_cast<std::int64_t>(element_size);
  // Scores, bias, preference and mask of a tile.
  return threads * tile_rows * tile_cols * (3 * element + 1);
}

template bool all_by_row(const std::vector<Observer<float>*>&);
template bool all_by_row(const std::vector<Observer<double>*>&);
template void one_pass_rows(const Scores<float>&, std::span<double>,
                            const std::vector<Observer<float>*>&, int);
template void one_pass_rows(const Scores<double>&, std::span<double>,
                            const std::vector<Observer<double>*>&, int);

}  // namespace attn
