#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/parallel.hpp"
#include "kernel/running.hpp"
#include "kernel/tile.hpp"
#include "scheme/one_pass.hpp"

namespace attn {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// A panel of exponentials is written and read once, what is gathered by row is read and written by
// every panel: so that it is cheaper to have few wide panels, in cache or not. Measured.
constexpr Index usual_lines = 128;
constexpr Index most_lines = 256;
constexpr Index short_rows = 1024;
constexpr Index wide_bytes = Index{8} << 20;
constexpr Index held_bytes = Index{16} << 20;

// What the panels of a slot add up to is kept by row, and added over slots at the end.
constexpr Index fewest_panels_a_slot = 4;
constexpr Index most_slots = 16;
constexpr Index slot_bytes = Index{24} << 20;
constexpr Index usual_row_bytes = 256;  // 64 float32 channels

// Tiles of a panel, which products of one still find in cache; as in every other pass, so that g
// is the same to the last bit.
constexpr Index tile_rows = pass_tile_length;

// Flushed exponentials are below 2⁻¹²⁶, their weights even more so: rows that sum to more than this
// lose nothing to them in either type.
constexpr double smallest_row_sum = 0x1p-60;

// One thread's scratch.
template <class T>
struct Workspace {
  Buffer<T> panel;
  typename Scores<T>::Scratch scratch;
  std::vector<double> shift;
  std::vector<double> sum;
  std::vector<double> factor;
};

template <class T>
class ColumnsRun {
 public:
  ColumnsRun(const Scores<T>& scores, std::span<double> row, std::span<double> col,
             const std::vector<Observer<T>*>& observers)
      : scores_(scores),
        partition_(one_pass_columns_partition(scores.rows(), scores.cols(), sizeof(T))),
        row_(row),
        col_(col),
        observers_(observers),
        row_sums_(static_cast<std::size_t>(partition_.slots),
                  std::vector<double>(row.size(), 0.0)) {}

  std::vector<Index> run(int threads) {
    for (Observer<T>* observer : observers_) observer->start(partition_);
    std::vector<Workspace<T>> workspaces(static_cast<std::size_t>(std::max(1, threads)));
    kernel::parallel_for(partition_.slots, threads, [&](Index slot, int worker) {
      auto& work = workspaces[static_cast<std::size_t>(worker)];
      for (Index p = partition_.first_panel(slot); p < partition_.first_panel(slot + 1); ++p) {
        run_panel(p, slot, work);
      }
    });
    std::vector<Index> left = normalise_rows();
    for (Observer<T>* observer : observers_) observer->finish();
    return left;
  }

 private:
  struct Panel {
    Index col0 = 0;
    Index cols = 0;
    std::vector<TileRange> tiles;  // that are not empty
  };

  Panel make_panel(Index index) const {
    Panel panel;
    panel.col0 = index * partition_.panel;
    panel.cols = std::min(partition_.panel, partition_.cols - panel.col0);
    for (Index at = 0; at < partition_.rows; at += tile_rows) {
      const TileRange tile{at, std::min(tile_rows, partition_.rows - at), panel.col0, panel.cols};
      if (!scores_.empty(tile)) panel.tiles.push_back(tile);
    }
    return panel;
  }

  void run_panel(Index index, Index slot, Workspace<T>& work) {
    const Panel panel = make_panel(index);
    const auto cols = static_cast<std::size_t>(panel.cols);
    work.panel.reserve(partition_.rows * panel.cols);
    const auto view = [&](const TileRange& tile) {
      return MatrixView<T>(work.panel.data() + tile.row0 * panel.cols, tile.rows, panel.cols);
    };
    work.shift.assign(cols, minus_infinity);
    work.sum.assign(cols, 0.0);
    work.factor.assign(cols, 0.0);
    if (scores_.near_zero()) {
      work.shift.assign(cols, 0.0);
      for (const TileRange& tile : panel.tiles) {
        scores_.fill_exponentials(tile, view(tile), work.scratch, nullptr, work.sum.data());
      }
    } else {
      fill_shifted(panel.tiles, view, work);
    }
    for (std::size_t j = 0; j < cols; ++j) {
      const bool empty = work.sum[j] == 0;
      col_[static_cast<std::size_t>(panel.col0) + j] =
          empty ? minus_infinity : work.shift[j] + std::log(work.sum[j]);
      work.factor[j] = empty ? 0.0 : 1 / work.sum[j];
    }
    if (row_.empty()) return;
    std::vector<double>& row_sums = row_sums_[static_cast<std::size_t>(slot)];
    for (const TileRange& tile : panel.tiles) {
      const MatrixView<const T> exponentials = view(tile);
      kernel::add_row_products(exponentials, work.factor.data(), row_sums.data() + tile.row0);
      for (Observer<T>* observer : observers_) {
        observer->observe(WeightTile<T>{tile, exponentials, work.factor.data()}, slot);
      }
    }
  }

  // exp(s_ij − m_j), m_j the columns' maxima, and their sums.
  template <class View>
  void fill_shifted(const std::vector<TileRange>& tiles, const View& view, Workspace<T>& work) {
    for (const TileRange& tile : tiles) {
      scores_.fill(tile, view(tile), work.scratch);
      kernel::column_max(view(tile), nullptr, work.shift.data());
    }
    for (double& shift : work.shift) {
      if (shift == minus_infinity) shift = 0;
    }
    for (const TileRange& tile : tiles) {
      kernel::exp_columns(view(tile), nullptr, work.shift.data(), work.sum.data());
    }
  }

  std::vector<Index> normalise_rows() {
    std::vector<Index> left;
    std::vector<T> factors(row_.size());
    for (std::size_t i = 0; i < row_.size(); ++i) {
      double sum = 0;
      for (const auto& part : row_sums_) sum += part[i];
      const bool done = sum >= smallest_row_sum;
      if (!done) left.push_back(static_cast<Index>(i));
      row_[i] = done ? std::log(sum) : minus_infinity;
      factors[i] = done ? static_cast<T>(1 / sum) : T{0};
    }
    for (Observer<T>* observer : observers_) {
      for (Index slot = 0; slot < partition_.slots; ++slot) {
        observer->scale_rows(0, partition_.rows, factors.data(), slot);
      }
    }
    return left;
  }

  const Scores<T>& scores_;
  Partition partition_;
  std::span<double> row_;
  std::span<double> col_;
  const std::vector<Observer<T>*>& observers_;
  std::vector<std::vector<double>> row_sums_;  // by slot
};

}  // namespace

Partition one_pass_columns_partition(Index rows, Index cols, std::size_t element_size) {
  Partition partition = partition_of(Order::column_panels, rows, cols, element_size);
  const Index line_bytes = std::max<Index>(1, rows) * static_cast<Index>(element_size);
  if (line_bytes * most_lines <= wide_bytes && rows > short_rows) {
    partition.panel = most_lines;
  } else if (line_bytes * usual_lines <= held_bytes) {
    partition.panel = usual_lines;
  }
  partition.panels = (cols + partition.panel - 1) / partition.panel;
  const Index affordable = slot_bytes / (std::max<Index>(1, rows) * usual_row_bytes);
  const Index slots = std::clamp<Index>(
      std::min(partition.panels / fewest_panels_a_slot, affordable), 2, most_slots);
  partition.slots = std::min(slots, partition.panels);
  return partition;
}

template <class T>
std::vector<Index> one_pass_columns(const Scores<T>& scores, std::span<double> row,
                                    std::span<double> col,
                                    const std::vector<Observer<T>*>& observers, int threads) {
  return ColumnsRun<T>(scores, row, col, observers).run(threads);
}

std::int64_t one_pass_columns_bytes(Index rows, Index cols, std::size_t element_size, int threads) {
  const Partition partition = one_pass_columns_partition(rows, cols, element_size);
  const auto element = static_cast<std::int64_t>(element_size);
  const std::int64_t workers = std::min<std::int64_t>(threads, std::max<Index>(1, partition.slots));
  // Scores of a panel; bias, preference and mask of a tile; row sums by slot.
  return workers * partition.panel * (rows * element + tile_rows * (2 * element + 1)) +
         partition.slots * rows * static_cast<std::int64_t>(sizeof(double));
}

template std::vector<Index> one_pass_columns(const Scores<float>&, std::span<double>,
                                             std::span<double>,
                                             const std::vector<Observer<float>*>&, int);
template std::vector<Index> one_pass_columns(const Scores<double>&, std::span<double>,
                                             std::span<double>,
                                             const std::vector<Observer<double>*>&, int);

}  // namespace attn
