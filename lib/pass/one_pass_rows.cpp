#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/online_softmax.hpp"
#include "kernel/tile.hpp"
#include "pass/one_pass.hpp"
#include "pass/running_rows.hpp"
#include "pass/selected_rows.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// exp(−g) times exp(s) then lies well inside float32.
constexpr double largest_potential = 45;

// One thread's scratch: one tile, or all tiles of a block side by side.
template <class T>
struct RowScratch {
  Buffer<T> tiles;
  typename Scores<T>::Scratch scratch;
  RunningRows<T> rows;
  PooledVector<T> maxima;  // by tile: the maxima that its exponentials are relative to
  RunningRows<T> softmax;  // of a mixture: the sums of E_ij alone
};

template <class T>
class RowRun {
 public:
  // With a g, can_run_rows has asked whether the scores are near 0.
  RowRun(const RowPass<T>& pass, int threads)
      : pass_(pass),
        threads_(threads),
        near_zero_(pass.col.empty() ? takes_plain_exponentials(*pass.scores)
                                    : pass.scores->near_zero()),
        key_factor_(key_factors(pass.col)) {
    for (Observer<T>* observer : pass.observers) {
      list_of(*observer).push_back(observer);
      show_empty_ = show_empty_ || observer->wants_empty_tiles();
    }
    const Index rows = pass.scores->rows();
    const Index cols = pass.scores->cols();
    partition_ = others_.empty() && pass.exponentials == nullptr
                     ? blocks_by_row(rows, cols)
                     : row_pass_partition(rows, cols, sizeof(T));
  }

  void run() {
    for (Observer<T>* observer : pass_.observers) observer->start(partition_);
    auto workspaces = workspaces_for<RowScratch<T>>(threads_);
    const SlotShare share = share_of<T>(partition_, pass_.observers);
    for_each_panel(
        share, threads_, pass_.rows, workspaces, [&](Index block, Index slot, RowScratch<T>& work) {
          const RowRange rows = partition_.lines(block);
          run_block({rows.first, rows.last - rows.first, 0, partition_.cols}, slot, work);
        });
    share.complete_lines(pass_.row);
    share.complete_lines(pass_.softmax_row);
    share_gathered<T>(pass_.observers, share);
    finish<T>(pass_.observers);
  }

 private:
  // The number of threads must not change what ranks divide, which columns all rows of a block
  // leave out, or which of several scores out of range is named.
  Partition blocks_by_row(Index rows, Index cols) const {
    const bool any_blocks =
        near_zero_ && pass_.scores->band().whole() && Ranks::current() == nullptr;
    return any_blocks ? row_tile_partition_for(threads_, rows, cols)
                      : row_tile_partition(rows, cols);
  }

  bool is_mixture() const { return !pass_.softmax_row.empty(); }

  // With a g, the exponentials do not have the logarithms of the weights.
  PooledVector<Observer<T>*>& list_of(const Observer<T>& observer) {
    if (pass_.rows == nullptr && observer.by_row() && !is_mixture()) return by_row_;
    const bool plain_softmax = pass_.rows == nullptr && pass_.col.empty();
    return plain_softmax && observer.takes_row_entropies() ? entropy_observers_ : others_;
  }

  void run_block(const TileRange& block, Index slot, RowScratch<T>& work) {
    work.rows.start(block.rows, near_zero_);
    work.softmax.start(is_mixture() ? block.rows : 0, near_zero_);
    work.maxima.clear();
    work.tiles.reserve(block.rows *
                       (others_.empty() ? std::min(row_tile_cols, block.cols) : block.cols));
    for_tiles(block, work, [&](const TileRange& range, MatrixView<T> tile, bool empty) {
      if (!empty) add(range, tile, slot, work);
      const PooledVector<T>& max = work.rows.max;
      if (!others_.empty()) work.maxima.insert(work.maxima.end(), max.begin(), max.end());
    });
    complete(block, slot, work);
    if (!others_.empty()) show_others(block, slot, work);
  }

  // Calls body(range, tile, empty) for the tiles of a block in order, side by side or in one place.
  template <class Body>
  void for_tiles(const TileRange& block, RowScratch<T>& work, const Body& body) const {
    TileRange range = block;
    for (range.col0 = 0; range.col0 < block.cols; range.col0 += row_tile_cols) {
      range.cols = std::min(row_tile_cols, block.cols - range.col0);
      if (pass_.exponentials == nullptr && !show_empty_) {
        const Index used = pass_.scores->cols_in_use(range);
        range.cols =
            std::min(range.cols, (used + row_tile_step - 1) / row_tile_step * row_tile_step);
      }
      T* first = work.tiles.data() + (others_.empty() ? 0 : block.rows * range.col0);
      body(range, MatrixView<T>(first, range.rows, range.cols), pass_.scores->empty(range));
    }
  }

  void add(const TileRange& range, MatrixView<T> tile, Index slot, RowScratch<T>& work) const {
    if (is_mixture()) {
      pass_.scores->fill_exponentials(range, tile, work.scratch, work.softmax.sum.data(), nullptr);
      kernel::add_row_products(tile, key_factor_.data() + range.col0, work.rows.sum.data());
    } else if (key_factor_.empty()) {
      const bool grown =
          work.rows.add(*pass_.scores, range, tile, work.scratch, !entropy_observers_.empty());
      if (grown) scale(range, slot, work);
    } else {
      kernel::scale_columns_sum_rows(exponentials(range, tile, work),
                                     key_factor_.data() + range.col0, tile, work.rows.sum.data());
    }
    for (Observer<T>* observer : by_row_) observer->observe(WeightTile<T>{range, tile}, slot);
  }

  MatrixView<const T> exponentials(const TileRange& range, MatrixView<T> tile,
                                   RowScratch<T>& work) const {
    if (pass_.exponentials != nullptr) return pass_.exponentials->tile(range, tile, work.scratch);
    pass_.scores->fill_exponentials(range, tile, work.scratch, nullptr, nullptr);
    return tile;
  }

  void scale(const TileRange& range, Index slot, const RowScratch<T>& work) const {
    for (Observer<T>* observer : by_row_) {
      observer->scale_rows(range.row0, range.rows, work.rows.factor.data(), slot);
    }
  }

  void complete(const TileRange& block, Index slot, RowScratch<T>& work) const {
    double* const f = pass_.row.data() + block.row0;
    work.rows.complete(pass_.sink, f, pass_.hybrid);
    if (is_mixture()) {
      work.softmax.complete(pass_.sink, pass_.softmax_row.data() + block.row0, 1 - pass_.hybrid);
    }
    scale(block, slot, work);
    if (entropy_observers_.empty()) return;
    work.rows.find_entropies(pass_.sink, f);
    for (Observer<T>* observer : entropy_observers_) {
      observer->row_entropies(block.row0, block.rows, work.rows.product.data());
    }
  }

  void show_others(const TileRange& block, Index slot, RowScratch<T>& work) const {
    PooledVector<T> factor(static_cast<std::size_t>(block.rows));
    const T* maxima = work.maxima.data();
    for_tiles(block, work, [&](const TileRange& range, MatrixView<T> tile, bool empty) {
      if (empty) {
        if (show_empty_) clear(tile);
      } else if (is_mixture()) {
        kernel::mix_columns(tile, key_factor_.data() + range.col0, work.rows.factor.data(),
                            work.softmax.factor.data());
      } else {
        for (std::size_t i = 0; i < factor.size(); ++i) {
          factor[i] = work.rows.factor_since(i, maxima[i]);
        }
      }
      show_tile(range, tile, empty, is_mixture() ? nullptr : factor.data(), slot);
      maxima += block.rows;
    });
  }

  static void clear(MatrixView<T> tile) {
    for (Index i = 0; i < tile.rows; ++i) std::fill_n(tile.row(i), tile.cols, T{0});
  }

  // Shows the tile to observers that accept factors, then multiplied by the factors to all others.
  // Without factors, the tile holds the weights.
  void show_tile(const TileRange& range, MatrixView<T> tile, bool empty, const T* factor,
                 Index slot) const {
    const bool chosen = pass_.rows != nullptr;
    if (!empty && !chosen) {
      for (Observer<T>* observer : others_) {
        if (!observer->takes_row_factor()) continue;
        observer->observe(WeightTile<T>{range, tile, nullptr, factor}, slot);
      }
    }
    bool scaled = empty || factor == nullptr;
    for (Observer<T>* observer : others_) {
      const bool done = !empty && !chosen && observer->takes_row_factor();
      if (done || (empty && !observer->wants_empty_tiles())) continue;
      for (Index i = 0; !scaled && i < tile.rows; ++i) {
        kernel::scale_row(tile.row(i), tile.cols, static_cast<double>(factor[i]));
      }
      scaled = true;
      if (chosen) {
        show_chosen(*pass_.rows, WeightTile<T>{range, tile}, slot, *observer);
      } else {
        observer->observe(WeightTile<T>{range, tile}, slot);
      }
    }
  }

  const RowPass<T>& pass_;
  const int threads_;
  const bool near_zero_;
  const PooledVector<double> key_factor_;
  PooledVector<Observer<T>*> by_row_;
  PooledVector<Observer<T>*> entropy_observers_;
  PooledVector<Observer<T>*> others_;
  bool show_empty_ = false;
  Partition partition_;
};

}  // namespace

template <class T>
bool all_by_row(const PooledVector<Observer<T>*>& observers) {
  return std::all_of(observers.begin(), observers.end(),
                     [](const Observer<T>* observer) { return observer->by_row(); });
}

bool is_near_zero(std::span<const double> col) {
  return std::all_of(col.begin(), col.end(), [](double g) {
    return g == minus_infinity || std::abs(g) <= largest_potential;
  });
}

PooledVector<double> key_factors(std::span<const double> col) {
  PooledVector<double> factors(col.size());
  std::transform(col.begin(), col.end(), factors.begin(),
                 [](double g) { return g == minus_infinity ? 0 : std::exp(-g); });
  return factors;
}

template <class T>
bool can_run_rows(const RowPass<T>& pass) {
  return pass.col.empty() || (pass.scores->near_zero() && is_near_zero(pass.col));
}

template <class T>
void run_rows(const RowPass<T>& pass, int threads) {
  RowRun<T>(pass, threads).run();
}

std::int64_t row_pass_bytes(Index rows, Index cols, std::size_t element_size, bool by_row_alone,
                            int threads) {
  const auto element = static_cast<std::int64_t>(element_size);
  const Index block =
      (by_row_alone ? row_tile_partition(rows, cols) : row_pass_partition(rows, cols, element_size))
          .panel;
  const Index kept = by_row_alone ? row_tile_cols : cols;
  // Exponentials; bias, preference and mask of a tile; exp(−g).
  return threads * block * (kept * element + row_tile_cols * (2 * element + 1)) +
         cols * static_cast<std::int64_t>(sizeof(double));
}

template bool all_by_row(const PooledVector<Observer<float>*>&);
template bool all_by_row(const PooledVector<Observer<double>*>&);
template bool can_run_rows(const RowPass<float>&);
template bool can_run_rows(const RowPass<double>&);
template void run_rows(const RowPass<float>&, int);
template void run_rows(const RowPass<double>&, int);

}  // namespace attn
