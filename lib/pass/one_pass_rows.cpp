#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/online_softmax.hpp"
#include "kernel/parallel.hpp"
#include "kernel/tile.hpp"
#include "pass/one_pass.hpp"
#include "pass/selected_rows.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// A tile of scores with its keys and values should stay in the second-level cache; a multiple of
// the register tile's six rows. What a row gathers depends on the columns of its tiles alone.
constexpr Index tile_rows = 96;
constexpr Index tile_cols = row_tile_cols;
constexpr Index most_slots = 1024;  // where nothing is kept per slot

// A tile on the diagonal of a causal mask ends at a multiple of this, which packed products begin
// at and sums of float32 are cut at: exponentials of what is left out would add zeros.
constexpr Index least_cols = 64;

// Blocks of which all tiles are kept until the rows are complete: in the second-level cache at a
// few thousand keys, a multiple of six too, and never more than a thread may hold.
constexpr Index kept_rows = 48;
constexpr Index fewest_rows = 8;
constexpr Index held_bytes = Index{16} << 20;

// exp(−g) times exp(s) then lies well inside of float32.
constexpr double largest_potential = 45;

Partition blocks_of(Index rows, Index cols, Index block) {
  Partition partition;
  partition.order = Order::row_panels;
  partition.rows = rows;
  partition.cols = cols;
  partition.panel = block;
  partition.panels = (rows + block - 1) / block;
  partition.slots = std::min(most_slots, partition.panels);
  return partition;
}

// One thread's scratch: tiles side by side, one or as many as a block has.
template <class T>
struct Workspace {
  Buffer<T> tiles;
  typename Scores<T>::Scratch scratch;
  std::vector<T> max;
  std::vector<T> factor;
  std::vector<T> maxima;  // by tile, what each one's exponentials are relative to
  std::vector<double> sum;
  std::vector<double> product;  // Σ_j E_ij log E_ij where entropies are asked for
};

template <class T>
class RowRun {
 public:
  explicit RowRun(const RowPass<T>& pass) : pass_(pass), near_zero_(pass.scores->near_zero()) {
    for (Observer<T>* observer : pass.observers) {
      list_of(*observer).push_back(observer);
      show_empty_ = show_empty_ || observer->wants_empty_tiles();
    }
    const Index rows = pass.scores->rows();
    const Index cols = pass.scores->cols();
    partition_ = others_.empty() && pass.exponentials == nullptr
                     ? blocks_of(rows, cols, tile_rows)
                     : row_pass_partition(rows, cols, sizeof(T));
    for (const double g : pass.col) key_factor_.push_back(g == minus_infinity ? 0 : std::exp(-g));
  }

  void run(int threads) {
    for (Observer<T>* observer : pass_.observers) observer->start(partition_);
    std::vector<Workspace<T>> workspaces(static_cast<std::size_t>(std::max(1, threads)));
    kernel::parallel_for(partition_.slots, threads, [&](Index slot, int worker) {
      Workspace<T>& work = workspaces[static_cast<std::size_t>(worker)];
      for (Index b = partition_.first_panel(slot); b < partition_.first_panel(slot + 1); ++b) {
        const Index first = b * partition_.panel;
        const Index count = std::min(partition_.panel, partition_.rows - first);
        if (pass_.rows == nullptr || pass_.rows->meets({first, first + count})) {
          run_block({first, count, 0, partition_.cols}, slot, work);
        }
      }
    });
    for (Observer<T>* observer : pass_.observers) observer->finish();
  }

 private:
  // Where there is a g, logarithms of weights are not those of the exponentials.
  std::vector<Observer<T>*>& list_of(const Observer<T>& observer) {
    if (pass_.rows == nullptr && observer.by_row()) return by_row_;
    const bool alone = pass_.rows == nullptr && pass_.col.empty();
    return alone && observer.takes_row_entropies() ? told_ : others_;
  }

  void run_block(const TileRange& block, Index slot, Workspace<T>& work) {
    const auto rows = static_cast<std::size_t>(block.rows);
    work.max.assign(rows, near_zero_ ? T{0} : -std::numeric_limits<T>::infinity());
    work.sum.assign(rows, 0.0);
    work.product.assign(rows, 0.0);
    work.factor.resize(rows);
    work.maxima.clear();
    work.tiles.reserve(block.rows *
                       (others_.empty() ? std::min(tile_cols, block.cols) : block.cols));
    for_tiles(block, work, [&](const TileRange& range, MatrixView<T> tile, bool empty) {
      if (!empty) add(range, tile, slot, work);
      if (!others_.empty()) work.maxima.insert(work.maxima.end(), work.max.begin(), work.max.end());
    });
    complete(block, slot, work);
    if (!others_.empty()) show_others(block, slot, work);
  }

  // body(range, tile, empty) for the tiles of a block in order; kept side by side or in one place.
  template <class Body>
  void for_tiles(const TileRange& block, Workspace<T>& work, const Body& body) const {
    TileRange range = block;
    for (range.col0 = 0; range.col0 < block.cols; range.col0 += tile_cols) {
      range.cols = std::min(tile_cols, block.cols - range.col0);
      if (pass_.exponentials == nullptr && !show_empty_) {
        const Index used = pass_.scores->cols_in_use(range);
        range.cols = std::min(range.cols, (used + least_cols - 1) / least_cols * least_cols);
      }
      T* first = work.tiles.data() + (others_.empty() ? 0 : block.rows * range.col0);
      body(range, MatrixView<T>(first, range.rows, range.cols), pass_.scores->empty(range));
    }
  }

  void add(const TileRange& range, MatrixView<T> tile, Index slot, Workspace<T>& work) const {
    double* product = told_.empty() ? nullptr : work.product.data();
    if (!near_zero_) {
      pass_.scores->fill(range, tile, work.scratch);
      if (kernel::online_softmax(tile, work.max.data(), work.sum.data(), work.factor.data(),
                                 product)) {
        scale(range, slot, work);
      }
    } else if (key_factor_.empty()) {
      pass_.scores->fill_exponentials(range, tile, work.scratch, work.sum.data(), nullptr, product);
    } else {
      kernel::scale_columns_sum_rows(exponentials(range, tile, work),
                                     key_factor_.data() + range.col0, tile, work.sum.data());
    }
    for (Observer<T>* observer : by_row_) observer->observe(WeightTile<T>{range, tile}, slot);
  }

  MatrixView<const T> exponentials(const TileRange& range, MatrixView<T> tile,
                                   Workspace<T>& work) const {
    if (pass_.exponentials != nullptr) return pass_.exponentials->tile(range, tile, work.scratch);
    pass_.scores->fill_exponentials(range, tile, work.scratch, nullptr, nullptr);
    return tile;
  }

  void scale(const TileRange& range, Index slot, const Workspace<T>& work) const {
    for (Observer<T>* observer : by_row_) {
      observer->scale_rows(range.row0, range.rows, work.factor.data(), slot);
    }
  }

  void complete(const TileRange& block, Index slot, Workspace<T>& work) const {
    for (Index i = 0; i < block.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool empty = work.sum[at] == 0;
      pass_.row[static_cast<std::size_t>(block.row0 + i)] =
          empty ? minus_infinity : static_cast<double>(work.max[at]) + std::log(work.sum[at]);
      work.factor[at] = empty ? T{0} : static_cast<T>(1 / work.sum[at]);
    }
    scale(block, slot, work);
    if (!told_.empty()) tell_entropies(block, work);
  }

  // H_i = log Σ_j E_ij − Σ_j E_ij log E_ij / Σ_j E_ij.
  void tell_entropies(const TileRange& block, Workspace<T>& work) const {
    for (std::size_t i = 0; i < work.product.size(); ++i) {
      const double sum = work.sum[i];
      // Of one weight that is nearly 1, roundings would leave less than 0.
      work.product[i] = sum == 0 ? 0.0 : std::max(0.0, std::log(sum) - work.product[i] / sum);
    }
    for (Observer<T>* observer : told_) {
      observer->row_entropies(block.row0, block.rows, work.product.data());
    }
  }

  void show_others(const TileRange& block, Index slot, Workspace<T>& work) const {
    std::vector<T> factor(work.factor.size());
    const T* maxima = work.maxima.data();
    for_tiles(block, work, [&](const TileRange& range, MatrixView<T> tile, bool empty) {
      if (empty) {
        if (show_empty_) clear(tile);
      } else {
        for (std::size_t i = 0; i < factor.size(); ++i) {
          // A tile may have been shown before the row's maximum was met, or have nothing allowed.
          const double lag =
              maxima[i] == work.max[i]
                  ? 1
                  : std::exp(static_cast<double>(maxima[i]) - static_cast<double>(work.max[i]));
          factor[i] = static_cast<T>(lag * static_cast<double>(work.factor[i]));
        }
      }
      show_tile(range, tile, empty, factor.data(), slot);
      maxima += block.rows;
    });
  }

  static void clear(MatrixView<T> tile) {
    for (Index i = 0; i < tile.rows; ++i) std::fill_n(tile.row(i), tile.cols, T{0});
  }

  // First to those that take the factors, then multiplied by them to all others.
  void show_tile(const TileRange& range, MatrixView<T> tile, bool empty, const T* factor,
                 Index slot) const {
    const bool chosen = pass_.rows != nullptr;
    if (!empty && !chosen) {
      for (Observer<T>* observer : others_) {
        if (!observer->takes_row_factor()) continue;
        observer->observe(WeightTile<T>{range, tile, nullptr, factor}, slot);
      }
    }
    bool scaled = empty;
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
  const bool near_zero_;
  std::vector<Observer<T>*> by_row_;
  std::vector<Observer<T>*> told_;
  std::vector<Observer<T>*> others_;
  bool show_empty_ = false;
  Partition partition_;
  std::vector<double> key_factor_;
};

}  // namespace

template <class T>
bool all_by_row(const std::vector<Observer<T>*>& observers) {
  return std::all_of(observers.begin(), observers.end(),
                     [](const Observer<T>* observer) { return observer->by_row(); });
}

template <class T>
bool can_run_rows(const RowPass<T>& pass) {
  return pass.col.empty() ||
         (pass.scores->near_zero() && std::all_of(pass.col.begin(), pass.col.end(), [](double g) {
            return g == minus_infinity || std::abs(g) <= largest_potential;
          }));
}

template <class T>
void run_rows(const RowPass<T>& pass, int threads) {
  RowRun<T>(pass).run(threads);
}

Partition row_pass_partition(Index rows, Index cols, std::size_t element_size) {
  const Index line_bytes = std::max<Index>(1, cols) * static_cast<Index>(element_size);
  Index block = kept_rows;
  while (block > fewest_rows && block * line_bytes > held_bytes) block /= 2;
  Partition partition = blocks_of(rows, cols, block);
  // Observers hold a vector along the keys for each slot.
  partition.slots =
      std::min(partition.panels, partition_of(Order::row_panels, rows, cols, element_size).slots);
  return partition;
}

std::int64_t row_pass_bytes(Index rows, Index cols, std::size_t element_size, bool by_row_alone,
                            int threads) {
  const auto element = static_cast<std::int64_t>(element_size);
  const Index block = by_row_alone ? tile_rows : row_pass_partition(rows, cols, element_size).panel;
  const Index kept = by_row_alone ? tile_cols : cols;
  // Exponentials; bias, preference and mask of a tile; exp(−g).
  return threads * block * (kept * element + tile_cols * (2 * element + 1)) +
         cols * static_cast<std::int64_t>(sizeof(double));
}

template bool all_by_row(const std::vector<Observer<float>*>&);
template bool all_by_row(const std::vector<Observer<double>*>&);
template bool can_run_rows(const RowPass<float>&);
template bool can_run_rows(const RowPass<double>&);
template void run_rows(const RowPass<float>&, int);
template void run_rows(const RowPass<double>&, int);

}  // namespace attn
