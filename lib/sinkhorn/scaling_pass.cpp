#include "sinkhorn/scaling_pass.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernel/two_sided.hpp"
#include "parallel/parallel_for.hpp"
#include "pass/one_pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// The amount that the last-level cache may hold from one pass to the next.
constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;

// Columns whose sums over slots one thread adds up.
constexpr Index strip_cols = 1024;

}  // namespace

template <class T>
class ScalingPasses<T>::Run : public FromPool {
  struct Tile {
    TileRange range;
    MatrixView<const T> values;  // empty if they are kept
  };

  // One thread's scratch.
  struct Scratch {
    Buffer<T> panel;
    typename Scores<T>::Scratch scores;
    PooledVector<Tile> tiles;  // of a block, without empty ones
    PooledVector<double> row_sum;
    PooledVector<T> row_factor;
    Buffer<T> col_sum;  // of a block in float32
  };

 public:
  Run(GibbsKernel<T>& kernel, int threads)
      : kernel_(kernel),
        partition_(kernel.partition()),
        threads_(threads),
        from_memory_(GibbsKernel<T>::bytes(partition_.rows, partition_.cols) > cached_bytes),
        workspaces_(workspaces_for<Scratch>(threads)),
        col_factor_(partition_.cols),
        col_sums_(static_cast<std::size_t>(partition_.slots)) {}

  void run(const ScalingPass& pass) {
    pass_ = &pass;
    for (std::size_t j = 0; j < pass.col_scale.size(); ++j) {
      col_factor_[static_cast<Index>(j)] = static_cast<T>(pass.col_scale[j]);
    }
    const SlotShare share(partition_);
    for_each_panel(
        share, threads_, nullptr, workspaces_, [&](Index block, Index slot, Scratch& work) {
          if (block == partition_.first_panel(slot)) clear_sums(slot);
          const RowRange rows = partition_.lines(block);
          run_block({rows.first, rows.last - rows.first, 0, partition_.cols}, slot, work);
        });
    complete(share);
    const Index strips = (partition_.cols + strip_cols - 1) / strip_cols;
    parallel_for(strips, threads_, [&](Index strip, int) {
      const Index first = strip * strip_cols;
      add_slots(pass.col_sum, first, std::min(first + strip_cols, partition_.cols));
    });
  }

 private:
  void complete(const SlotShare& share) {
    if (!share.divided()) return;
    share.complete_slots([&](Index slot, const RankShare::Visit& visit) {
      Buffer<double>& sums = col_sums_[static_cast<std::size_t>(slot)];
      sums.reserve(partition_.cols);
      visit(std::as_writable_bytes(
          std::span(sums.data(), static_cast<std::size_t>(partition_.cols))));
    });
    share.complete_lines(pass_->row_factor);
    share.complete_lines(pass_->row_sum);
  }

  static constexpr Index group = GibbsKernel<T>::kept_rows;

  void clear_sums(Index slot) {
    Buffer<double>& sums = col_sums_[static_cast<std::size_t>(slot)];
    sums.reserve(partition_.cols);
    std::fill(sums.begin(), sums.end(), 0.0);
  }

  // Adds up the slots over columns [first, end).
  void add_slots(std::span<double> col_sum, Index first, Index end) const {
    double* to = col_sum.data();
    std::fill(to + first, to + end, 0.0);
    for (const Buffer<double>& part : col_sums_) {
      const double* from = part.data();
      for (Index j = first; j < end; ++j) to[j] += from[j];
    }
  }

  void run_block(const TileRange& block, Index slot, Scratch& work) {
    work.row_sum.assign(static_cast<std::size_t>(block.rows), 0.0);
    work.row_factor.resize(static_cast<std::size_t>(block.rows));
    const bool made = gather_tiles(block, work);
    double* total = col_sums_[static_cast<std::size_t>(slot)].data();
    if constexpr (std::is_same_v<T, double>) {
      multiply(block, made, total, work);
    } else {
      work.col_sum.reserve(block.cols);
      std::fill_n(work.col_sum.data(), block.cols, T{0});
      multiply(block, made, work.col_sum.data(), work);
      for (Index j = 0; j < block.cols; ++j) total[j] += static_cast<double>(work.col_sum[j]);
    }
  }

  // A group of rows adds its part to the columns while the next group's products, which come from
  // memory, are computed. Tiles made here are in cache, and their row sums are known.
  void multiply(const TileRange& block, bool made, T* col_sum, Scratch& work) const {
    if (made) {
      find_factors(block.row0, 0, block.rows, work);
      for (const Tile& tile : work.tiles) {
        kernel::column_products(tile.values, work.row_factor.data(), col_sum + tile.range.col0);
      }
      return;
    }
    // One step more than there are groups: the last one only adds to the columns.
    for (Index first = 0; first < block.rows + group; first += group) {
      const Index count = std::clamp<Index>(block.rows - first, 0, group);
      const Index before = std::clamp<Index>(block.rows - first + group, 0, group);
      for (const Tile& tile : work.tiles) {
        kernel::TwoSided<T> products;
        products.cols = tile.range.cols;
        products.from_memory = from_memory_;
        if (first >= group) {
          products.now = kernel_.kept_tile(tile.range, first - group);
          products.row_factor = work.row_factor.data() + first - group;
          products.col_sum = col_sum + tile.range.col0;
        }
        if (count > 0 && !pass_->col_scale.empty()) {
          products.next = kernel_.kept_tile(tile.range, first);
          products.col_factor = col_factor_.data() + tile.range.col0;
          products.row_sum = work.row_sum.data() + first;
        }
        multiply(products, before, count);
      }
      if (count > 0) find_factors(block.row0, first, count, work);
    }
  }

  // For groups with these numbers of rows; incomplete groups are not packed.
  static void multiply(kernel::TwoSided<T> products, Index now_rows, Index next_rows) {
    if (products.now != nullptr && now_rows < group) {
      const MatrixView<const T> now(products.now, now_rows, products.cols);
      kernel::column_products(now, products.row_factor, products.col_sum);
      products.now = nullptr;
    }
    if (products.next != nullptr && next_rows < group) {
      const MatrixView<const T> next(products.next, next_rows, products.cols);
      kernel::row_products(next, products.col_factor, products.row_sum);
      products.next = nullptr;
    }
    if (products.now != nullptr || products.next != nullptr) kernel::two_sided_products(products);
  }

  // Tiles that are made here are multiplied while they are in cache; a row's sum is taken tile by
  // tile either way. Returns false if all tiles were kept: they are not multiplied yet.
  bool gather_tiles(const TileRange& block, Scratch& work) {
    work.tiles.clear();
    bool made = false;
    TileRange range = block;
    for (range.col0 = 0; range.col0 < block.cols; range.col0 += row_tile_cols) {
      range.cols = std::min(row_tile_cols, block.cols - range.col0);
      if (kernel_.scores().empty(range)) continue;
      // Tiles are kept by whole blocks.
      if (work.tiles.empty() && !kernel_.has(range)) {
        made = true;
        work.panel.reserve(block.rows * block.cols);
      }
      if (!made) {
        add_kept(range, block.rows % group == 0, work);
        continue;
      }
      const MatrixView<T> room(work.panel.data() + block.rows * range.col0, range.rows, range.cols);
      work.tiles.push_back({range, kernel_.tile(range, room, work.scores)});
      if (pass_->col_scale.empty()) continue;
      kernel::row_products(work.tiles.back().values, col_factor_.data() + range.col0,
                           work.row_sum.data());
    }
    return made;
  }

  // If all rows are packed, neighbouring tiles lie in memory like one.
  static void add_kept(const TileRange& range, bool packed, Scratch& work) {
    static_assert(row_tile_cols % kernel::two_sided_cols == 0);
    static_assert(row_tile_cols % kernel::packed_line<T>() == 0);
    if (packed && !work.tiles.empty()) {
      TileRange& before = work.tiles.back().range;
      if (before.col0 + before.cols == range.col0) {
        before.cols += range.cols;
        return;
      }
    }
    work.tiles.push_back({range, {}});
  }

  void find_factors(Index row0, Index first, Index count, Scratch& work) const {
    for (Index i = first; i < first + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto row = static_cast<std::size_t>(row0 + i);
      const double scale = pass_->row_scale.empty() ? 1 : pass_->row_scale[row];
      if (pass_->col_scale.empty()) {
        work.row_factor[at] = static_cast<T>(scale);
        continue;
      }
      const double sum = work.row_sum[at];
      double factor = sum > 0 ? scale / sum : 0;
      if (pass_->row_exponent != 1 && factor > 0) {
        const double shift = pass_->row_shift.empty() ? 0 : pass_->row_shift[row];
        factor = std::exp(shift + pass_->row_exponent * std::log(factor));
      }
      if (!pass_->row_factor.empty()) {
        double& before = pass_->row_factor[row];
        if (pass_->relaxation != 1 && factor > 0 && before > 0) {
          factor = before * std::pow(factor / before, pass_->relaxation);
        }
        before = factor;
      }
      work.row_factor[at] = static_cast<T>(factor);
      pass_->row_sum[row] = sum;
    }
  }

  GibbsKernel<T>& kernel_;
  const Partition& partition_;
  const int threads_;
  const bool from_memory_;
  const ScalingPass* pass_ = nullptr;
  PooledVector<Scratch> workspaces_;
  Buffer<T> col_factor_;
  PooledVector<Buffer<double>> col_sums_;  // by slot
};

template <class T>
ScalingPasses<T>::ScalingPasses(GibbsKernel<T>& kernel, int threads)
    : run_(std::make_unique<Run>(kernel, threads)) {}

template <class T>
ScalingPasses<T>::~ScalingPasses() = default;

template <class T>
void ScalingPasses<T>::run(const ScalingPass& pass) {
  run_->run(pass);
}

template class ScalingPasses<float>;
template class ScalingPasses<double>;

}  // namespace attn
