#include <algorithm>
#include <cmath>
#include <functional>

#include "kernel/tile.hpp"
#include "parallel/in_order.hpp"
#include "pass/completed_row.hpp"
#include "pass/one_pass.hpp"
#include "pass/scaled_sums.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Tiles of a panel are computed as in every other pass, so that g is the same to the last bit.
// Observers see pieces of tiles, which stay in the second-level cache for all of them.
constexpr Index tile_rows = pass_tile_length;

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

// One scheme's share of the weights.
struct Part {
  double coefficient = 1;
  std::span<double> row;  // f, written
  double begin = 0;       // the level of empty sums
  ScaledSums total = {};
  PooledVector<ScaledSums> lanes = {};
  PooledVector<AddedBy> by = {};  // by lane, while the lane is added
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
    partition_ = one_pass_columns_partition(scores.rows(), scores.cols(), sizeof(T), !row.empty());
    if (!row.empty()) parts_.push_back({hybrid, row});
    const double begin = scores.near_zero() ? 0.0 : minus_infinity;
    if (mixed) parts_.push_back({1 - hybrid, softmax_row, begin});
  }

  PooledVector<Index> run(int threads) {
    const SlotShare share = share_of<T>(partition_, observers_);
    const Index lanes = std::min<Index>(threads, share.own_count());
    start(lanes);
    PooledVector<ColumnScratch<T>> workspaces(static_cast<std::size_t>(lanes));
    const auto totals = [&](const RankShare::Visit& visit) { visit_totals(visit); };
    // The totals of ranks are handed on as a whole.
    add_in_order(
        share.own_count(), threads, share.divided() ? 1 : parts_of_sums(partition_.rows, threads),
        [&](Index n, Index lane) {
          const Index slot = share.own_slot(n);
          clear(lane);
          for (Index p = partition_.first_panel(slot); p < partition_.first_panel(slot + 1); ++p) {
            stop_if_asked();
            run_panel(p, lane, workspaces[static_cast<std::size_t>(lane)]);
          }
        },
        [&](Index n, Index lane, SumPart part) {
          const auto add_lane = [&] { add(lane, part); };
          share.add_in_turn(share.own_slot(n), totals, std::ref(add_lane));
        });
    share.complete_lines(col_);
    share.take_totals(totals);
    share_gathered<T>(observers_, share);
    PooledVector<Index> left = normalise_rows();
    finish<T>(observers_);
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
    const RowRange lines = partition_.lines(index);
    panel.col0 = lines.first;
    panel.cols = lines.last - lines.first;
    for (Index at = 0; at < partition_.rows; at += tile_rows) {
      const TileRange tile{at, std::min(tile_rows, partition_.rows - at), panel.col0, panel.cols};
      if (!scores_.empty(tile)) panel.tiles.push_back(tile);
    }
    return panel;
  }

  // The slots in which observers gather a part: the totals of all parts come first, then the lanes.
  Index place_of_total(std::size_t part) const { return static_cast<Index>(part); }
  Index place_of_lane(Index lane, std::size_t part) const {
    return static_cast<Index>(parts_.size()) * (1 + lane) + static_cast<Index>(part);
  }

  void start(Index lanes) {
    Partition places = partition_;
    places.slots = place_of_lane(lanes, 0);
    for (Observer<T>* observer : observers_) observer->start(places);
    const auto rows = static_cast<std::size_t>(partition_.rows);
    for (Part& part : parts_) {
      part.total.values.resize(rows);
      part.total.clear(part.begin);
      part.lanes.resize(static_cast<std::size_t>(lanes));
      part.by.resize(static_cast<std::size_t>(lanes));
      for (ScaledSums& sums : part.lanes) sums.values.resize(rows);
    }
  }

  void clear(Index lane) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      sums_of(part, lane).clear(parts_[part].begin);
      for (Observer<T>* observer : observers_) {
        set_to_zero(observer->gathered(place_of_lane(lane, part)));
      }
    }
  }

  ScaledSums& sums_of(std::size_t part, Index lane) {
    return parts_[part].lanes[static_cast<std::size_t>(lane)];
  }

  void add(Index lane, SumPart rows) {
    for (std::size_t part = 0; part < parts_.size(); ++part) add_part(part, lane, rows);
  }

  // total += the sums of a lane, for some of the rows.
  void add_part(std::size_t index, Index lane, SumPart rows) {
    Part& part = parts_[index];
    const ScaledSums& sums = sums_of(index, lane);
    AddedBy& by = part.by[static_cast<std::size_t>(lane)];
    if (rows.is_first()) by = join_levels(sums, part.total);
    if (by.added == 0) return;
    add_sums(sums, part.total, by, {rows.first(partition_.rows), rows.last(partition_.rows)});
    for (Observer<T>* observer : observers_) {
      const MatrixView<T> from = observer->gathered(place_of_lane(lane, index));
      const MatrixView<T> to = observer->gathered(place_of_total(index));
      const Index first = rows.first(to.rows);
      const Index count = rows.last(to.rows) - first;
      add_scaled<T>(from.row_range(first, count), to.row_range(first, count), by);
    }
  }

  void visit_totals(const RankShare::Visit& visit) {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      ScaledSums& total = parts_[part].total;
      visit(std::as_writable_bytes(std::span<double>(&total.level, 1)));
      visit(std::as_writable_bytes(std::span<double>(total.values)));
      for (Observer<T>* observer : observers_) {
        MatrixView<T> sums = observer->gathered(place_of_total(part));
        if (sums.row_stride == sums.cols) sums = as_row(sums);
        for (Index i = 0; i < sums.rows; ++i) {
          visit(std::as_writable_bytes(
              std::span<T>(sums.row(i), static_cast<std::size_t>(sums.cols))));
        }
      }
    }
  }

  void run_panel(Index index, Index lane, ColumnScratch<T>& work) {
    const Panel panel = make_panel(index);
    const auto cols = static_cast<std::size_t>(panel.cols);
    work.panel.reserve(partition_.rows * panel.cols);
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
    if (parts_.size() > 1) find_unas_factors(lane, work);
    for (const TileRange& tile : panel.tiles) {
      TileRange piece = tile;
      for (Index i = 0; i < tile.rows; i += column_piece_rows) {
        piece.row0 = tile.row0 + i;
        piece.rows = std::min(column_piece_rows, tile.rows - i);
        gather(piece, view(piece), lane, work);
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
  void find_unas_factors(Index lane, ColumnScratch<T>& work) {
    ScaledSums& sums = sums_of(1, lane);
    const double by = raise_level(work.shift, work.sum, sums, work.unas_factor);
    if (by == 1) return;
    work.rescale.assign(sums.values.size(), static_cast<T>(by));
    for (Observer<T>* observer : observers_) {
      observer->scale_rows(0, partition_.rows, work.rescale.data(), place_of_lane(lane, 1));
    }
  }

  void gather(const TileRange& range, MatrixView<const T> exponentials, Index lane,
              const ColumnScratch<T>& work) {
    const double* const factors[] = {work.dnas_factor.data(), work.unas_factor.data()};
    add_row_sums(exponentials, factors, range.row0, sums_of(0, lane),
                 parts_.size() > 1 ? &sums_of(1, lane) : nullptr);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (Observer<T>* observer : observers_) {
        observer->observe(WeightTile<T>{range, exponentials, factors[part]},
                          place_of_lane(lane, part));
      }
    }
  }

  // Divides the rows by their sums, and adds up the parts.
  PooledVector<Index> normalise_rows() {
    PooledVector<Index> left;
    if (parts_.empty()) return left;
    PooledVector<bool> done(static_cast<std::size_t>(partition_.rows), true);
    for (const Part& part : parts_) {
      for (std::size_t i = 0; i < done.size(); ++i) {
        const double sum = part.total.values[i];
        if (!(sum >= smallest_row_sum)) done[i] = false;
        part.row[i] = completed(part, i).f;
      }
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) left.push_back(static_cast<Index>(i));
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      for (const Index i : left) parts_[part].row[static_cast<std::size_t>(i)] = minus_infinity;
      scale_rows(part, done);
    }
    if (parts_.size() == 1) return left;
    for (Observer<T>* observer : observers_) {
      add_scaled<T>(observer->gathered(place_of_total(1)), observer->gathered(place_of_total(0)));
    }
    return left;
  }

  CompletedRow completed(const Part& part, std::size_t i) const {
    return completed_row(part.total.level, part.total.values[i], sink_, 0, part.coefficient);
  }

  void scale_rows(std::size_t index, const PooledVector<bool>& done) {
    const Part& part = parts_[index];
    PooledVector<T> by(done.size());
    for (std::size_t i = 0; i < done.size(); ++i) {
      by[i] = done[i] ? static_cast<T>(completed(part, i).factor) : T{0};
    }
    for (Observer<T>* observer : observers_) {
      observer->scale_rows(0, partition_.rows, by.data(), place_of_total(index));
    }
  }

  const Scores<T>& scores_;
  Partition partition_;
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
  const Partition partition = one_pass_columns_partition(rows, cols, element_size);
  const auto element = static_cast<std::int64_t>(element_size);
  const std::int64_t lanes = std::min<std::int64_t>(threads, std::max<Index>(1, partition.slots));
  // Scores of a panel; bias, preference and mask of a tile; row sums.
  return lanes * partition.panel * (rows * element + tile_rows * (2 * element + 1)) +
         parts * (1 + lanes) * rows * static_cast<std::int64_t>(sizeof(double));
}

Partition one_pass_columns_places(Index rows, Index cols, std::size_t element_size, Index parts,
                                  int threads) {
  Partition partition = one_pass_columns_partition(rows, cols, element_size);
  partition.slots = parts * (1 + std::min<Index>(threads, partition.slots));
  return partition;
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
