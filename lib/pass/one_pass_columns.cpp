#include <algorithm>
#include <cmath>

#include "kernel/online_softmax.hpp"
#include "kernel/tile.hpp"
#include "pass/one_pass.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Tiles of a panel are computed as in every other pass, so that g is the same to the last bit.
// Results are gathered from pieces of them that stay in the second-level cache for all observers.
constexpr Index tile_rows = pass_tile_length;

// Flushed exponentials are below 2⁻¹²⁶, and their weights are smaller still: rows that sum to more
// than this lose nothing to them in either type.
constexpr double smallest_row_sum = 0x1p-60;

// One thread's scratch.
template <class T>
struct ColumnScratch {
  Buffer<T> panel;
  typename Scores<T>::Scratch scratch;
  PooledVector<double> shift;
  PooledVector<double> sum;
  PooledVector<double> dnas_factor;
  PooledVector<double> unas_factor;
  PooledVector<T> rescale;
};

// One scheme's share of the weights. Its rows are shown to its own slots, `slots` of them from
// first_slot on. The sums of a slot are exp(−level) times their true value; each level is final at
// the end.
struct Part {
  double coefficient = 1;
  std::span<double> row;  // f, written
  Index first_slot = 0;
  PooledVector<PooledVector<double>> sums;  // by slot and row
  PooledVector<double> level;               // by slot

  Part(double u, std::span<double> f, Index first, Index slots, double begin)
      : coefficient(u),
        row(f),
        first_slot(first),
        sums(static_cast<std::size_t>(slots), PooledVector<double>(f.size(), 0.0)),
        level(static_cast<std::size_t>(slots), begin) {}

  double highest_level() const {
    double highest = minus_infinity;
    for (const double l : level) highest = std::max(highest, l);
    return highest;
  }

  // exp(level − highest), 0 for a slot without an allowed pair.
  PooledVector<double> slot_factors() const {
    PooledVector<double> factors(level.size(), 0.0);
    for (std::size_t slot = 0; slot < level.size(); ++slot) {
      if (level[slot] != minus_infinity) factors[slot] = std::exp(level[slot] - highest_level());
    }
    return factors;
  }
};

template <class T>
class ColumnsRun {
 public:
  // softmax_row: empty, or written for the mixture with softmax.
  ColumnsRun(const Scores<T>& scores, double hybrid, std::span<double> row,
             std::span<double> softmax_row, std::span<double> col, const ObserverList<T>& observers,
             double sink)
      : scores_(scores), col_(col), observers_(observers), sink_(sink) {
    const bool mixed = !softmax_row.empty();
    const Index parts = row.empty() ? 0 : (mixed ? 2 : 1);
    shown_ = one_pass_columns_partition(scores.rows(), scores.cols(), sizeof(T), parts);
    slots_ = mixed ? shown_.slots / 2 : shown_.slots;
    if (!row.empty()) parts_.emplace_back(hybrid, row, 0, slots_, 0.0);
    const double begin = scores.near_zero() ? 0.0 : minus_infinity;
    if (mixed) parts_.emplace_back(1 - hybrid, softmax_row, slots_, slots_, begin);
  }

  PooledVector<Index> run(int threads) {
    for (Observer<T>* observer : observers_) observer->start(shown_);
    auto workspaces = workspaces_for<ColumnScratch<T>>(threads);
    Partition one_part = shown_;
    one_part.slots = slots_;
    for_each_panel(
        one_part, threads, nullptr, workspaces,
        [&](Index panel, Index slot, ColumnScratch<T>& work) { run_panel(panel, slot, work); });
    PooledVector<Index> left = normalise_rows();
    for (Observer<T>* observer : observers_) observer->finish();
    return left;
  }

 private:
  struct Panel {
    Index col0 = 0;
    Index cols = 0;
    PooledVector<TileRange> tiles;  // without empty ones
  };

  Panel make_panel(Index index) const {
    Panel panel;
    const RowRange lines = shown_.lines(index);
    panel.col0 = lines.first;
    panel.cols = lines.last - lines.first;
    for (Index at = 0; at < shown_.rows; at += tile_rows) {
      const TileRange tile{at, std::min(tile_rows, shown_.rows - at), panel.col0, panel.cols};
      if (!scores_.empty(tile)) panel.tiles.push_back(tile);
    }
    return panel;
  }

  void run_panel(Index index, Index slot, ColumnScratch<T>& work) {
    const Panel panel = make_panel(index);
    const auto cols = static_cast<std::size_t>(panel.cols);
    work.panel.reserve(shown_.rows * panel.cols);
    const auto view = [&](const TileRange& tile) {
      return MatrixView<T>(work.panel.data() + tile.row0 * panel.cols, tile.rows, panel.cols);
    };
    work.shift.assign(cols, minus_infinity);
    work.sum.assign(cols, 0.0);
    if (scores_.near_zero()) {
      work.shift.assign(cols, 0.0);
      for (const TileRange& tile : panel.tiles) {
        scores_.fill_exponentials(tile, view(tile), work.scratch, nullptr, work.sum.data());
      }
    } else {
      fill_shifted(panel.tiles, view, work);
    }
    work.dnas_factor.assign(cols, 0.0);
    for (std::size_t j = 0; j < cols; ++j) {
      const bool empty = work.sum[j] == 0;
      col_[static_cast<std::size_t>(panel.col0) + j] =
          empty ? minus_infinity : work.shift[j] + std::log(work.sum[j]);
      work.dnas_factor[j] = empty ? 0.0 : 1 / work.sum[j];
    }
    if (parts_.empty()) return;
    if (parts_.size() > 1) find_unas_factors(parts_[1], slot, work);
    for (const TileRange& tile : panel.tiles) {
      TileRange piece = tile;
      for (Index i = 0; i < tile.rows; i += column_piece_rows) {
        piece.row0 = tile.row0 + i;
        piece.rows = std::min(column_piece_rows, tile.rows - i);
        gather(piece, view(piece), slot, work);
      }
    }
  }

  // exp(s_ij − m_j) with the column maxima m_j, and their sums.
  template <class View>
  void fill_shifted(const PooledVector<TileRange>& tiles, const View& view,
                    ColumnScratch<T>& work) {
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

  // The factors exp(m_j − M) that turn exp(s_ij − m_j) into exp(s_ij − M). M, the largest m_j of
  // the slot, may grow here.
  void find_unas_factors(Part& unas, Index slot, ColumnScratch<T>& work) {
    double& level = unas.level[static_cast<std::size_t>(slot)];
    double largest = level;
    for (std::size_t j = 0; j < work.shift.size(); ++j) {
      if (work.sum[j] != 0) largest = std::max(largest, work.shift[j]);
    }
    if (level < largest && level != minus_infinity) {
      const double by = std::exp(level - largest);
      for (double& sum : unas.sums[static_cast<std::size_t>(slot)]) sum *= by;
      work.rescale.assign(unas.row.size(), static_cast<T>(by));
      for (Observer<T>* observer : observers_) {
        observer->scale_rows(0, shown_.rows, work.rescale.data(), unas.first_slot + slot);
      }
    }
    level = largest;
    work.unas_factor.assign(work.shift.size(), 0.0);
    for (std::size_t j = 0; j < work.shift.size(); ++j) {
      if (work.sum[j] != 0) work.unas_factor[j] = std::exp(work.shift[j] - level);
    }
  }

  void gather(const TileRange& range, MatrixView<const T> exponentials, Index slot,
              const ColumnScratch<T>& work) {
    const double* const factors[] = {work.dnas_factor.data(), work.unas_factor.data()};
    const auto sums = [&](std::size_t part) {
      return parts_[part].sums[static_cast<std::size_t>(slot)].data() + range.row0;
    };
    if (parts_.size() == 1) {
      kernel::add_row_products(exponentials, factors[0], sums(0));
    } else {
      kernel::add_two_row_products(exponentials, factors, {sums(0), sums(1)});
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (Observer<T>* observer : observers_) {
        observer->observe(WeightTile<T>{range, exponentials, factors[part]},
                          parts_[part].first_slot + slot);
      }
    }
  }

  PooledVector<Index> normalise_rows() {
    PooledVector<Index> left;
    if (parts_.empty()) return left;
    PooledVector<double> sum(static_cast<std::size_t>(shown_.rows));
    PooledVector<bool> done(sum.size(), true);
    for (const Part& part : parts_) {
      row_sums(part, sum);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        if (!(sum[i] >= smallest_row_sum)) done[i] = false;
        part.row[i] = with_sink(std::log(sum[i]) + part.highest_level(), sink_);
      }
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) left.push_back(static_cast<Index>(i));
    }
    for (const Part& part : parts_) {
      for (const Index i : left) part.row[static_cast<std::size_t>(i)] = minus_infinity;
      row_sums(part, sum);
      scale_rows(part, sum, done);
    }
    return left;
  }

  static void row_sums(const Part& part, PooledVector<double>& sum) {
    const PooledVector<double> factors = part.slot_factors();
    sum.assign(sum.size(), 0.0);
    for (std::size_t slot = 0; slot < factors.size(); ++slot) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factors[slot] * part.sums[slot][i];
    }
  }

  void scale_rows(const Part& part, const PooledVector<double>& sum,
                  const PooledVector<bool>& done) {
    const PooledVector<double> factors = part.slot_factors();
    PooledVector<T> by(sum.size());
    for (Index slot = 0; slot < slots_; ++slot) {
      const double share = part.coefficient * factors[static_cast<std::size_t>(slot)];
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const double of_row = sink_ == no_sink
                                  ? share / sum[i]
                                  : share * std::exp(part.highest_level() - part.row[i]);
        by[i] = done[i] ? static_cast<T>(of_row) : T{0};
      }
      for (Observer<T>* observer : observers_) {
        observer->scale_rows(0, shown_.rows, by.data(), part.first_slot + slot);
      }
    }
  }

  const Scores<T>& scores_;
  Partition shown_;  // as observers see it, with the slots of all parts
  Index slots_ = 0;  // of one part
  PooledVector<Part> parts_;
  std::span<double> col_;
  const ObserverList<T>& observers_;
  double sink_;
};

}  // namespace

template <class T>
PooledVector<Index> one_pass_columns(const Scores<T>& scores, std::span<double> row,
                                     std::span<double> col, const ObserverList<T>& observers,
                                     int threads, double sink) {
  return ColumnsRun<T>(scores, 1, row, {}, col, observers, sink).run(threads);
}

template <class T>
PooledVector<Index> one_pass_hybrid(const Scores<T>& scores, double hybrid, std::span<double> row,
                                    std::span<double> unas_row, std::span<double> col,
                                    const ObserverList<T>& observers, int threads, double sink) {
  return ColumnsRun<T>(scores, hybrid, row, unas_row, col, observers, sink).run(threads);
}

std::int64_t one_pass_columns_bytes(Index rows, Index cols, std::size_t element_size, Index parts,
                                    int threads) {
  const Partition partition = one_pass_columns_partition(rows, cols, element_size, parts);
  const auto element = static_cast<std::int64_t>(element_size);
  const std::int64_t workers =
      std::min<std::int64_t>(threads, std::max<Index>(1, partition.slots / parts));
  // Scores of a panel; bias, preference and mask of a tile; row sums by slot.
  return workers * partition.panel * (rows * element + tile_rows * (2 * element + 1)) +
         partition.slots * rows * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                        \
  template PooledVector<Index> one_pass_columns(const Scores<T>&, std::span<double>,            \
                                                std::span<double>, const ObserverList<T>&, int, \
                                                double);                                        \
  template PooledVector<Index> one_pass_hybrid(const Scores<T>&, double, std::span<double>,     \
                                               std::span<double>, std::span<double>,            \
                                               const ObserverList<T>&, int, double);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
