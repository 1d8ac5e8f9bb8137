#include "gradient/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "gradient/folded_rows.hpp"
#include "kernel/gemm.hpp"
#include "kernel/gradient.hpp"
#include "kernel/in_order.hpp"
#include "kernel/packed.hpp"
#include "kernel/tile.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
struct GradientScratch {
  PooledVector<Buffer<T>> weights;  // by adjoint; the first starts as the scores
  Buffer<T> products;               // G
  Buffer<T> gradient;               // of a tile
  typename Scores<T>::Scratch scratch;
  PooledVector<double> column_sums;
  PooledVector<T> columns;
};

// The tiles in a workspace: one after the other for a whole panel, or each at the beginning.
struct PanelLayout {
  TileRange panel;
  bool whole = false;

  template <class T>
  MatrixView<T> view(Buffer<T>& storage, const TileRange& tile) const {
    storage.reserve((whole ? panel.rows : tile.rows) * panel.cols);
    return {storage.data() + (whole ? tile.row0 * panel.cols : 0), tile.rows, tile.cols};
  }
};

// du = Σ_ij (π_dnas − π_unas)_ij (G_ij − δ_i), by columns: δ of the mixture changes nothing,
// because rows of both sum to 1, and keeps the terms small.
//
// Where scores are close to each other the two hardly differ, and the error of g from float32 sums
// shows: the deviation of Σ_i ξ_ij from 1 corrects it. Rows need no correction: their terms cancel
// in the factors that they are multiplied with.
template <class T>
class HybridSum {
 public:
  HybridSum(const WeightAdjoint<T>& dnas, const WeightAdjoint<T>& unas)
      : col_(dnas.g), row_(dnas.row), ratio_(dnas.f.size()), sums_(dnas.g.size()) {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      row_[i] += unas.row[i];
      const bool closed = std::isinf(dnas.f[i]);
      ratio_[i] = closed ? 0.0 : unas.f[i] - dnas.f[i];
      factor_.push_back(closed ? 0.0 : std::exp(dnas.f[i]));
    }
  }

  // Adds the tile's part of Σ_i ξ_ij, for `mend`.
  void weigh(MatrixView<const T> dnas, const TileRange& tile, PooledVector<double>& mass) const {
    kernel::add_weighted_columns(dnas, factor_.data() + tile.row0, mass.data());
  }

  // Requires that all of these columns have been weighed.
  void mend(Index first, const PooledVector<double>& mass) {
    for (std::size_t j = 0; j < mass.size(); ++j) {
      if (mass[j] > 0) col_[static_cast<std::size_t>(first) + j] += std::log(mass[j]);
    }
  }

  void add(MatrixView<const T> dnas, MatrixView<const T> unas, MatrixView<const T> products,
           const TileRange& tile) {
    kernel::Adjoint<T> x;
    x.g = products;
    x.row = row_.data() + tile.row0;
    kernel::add_difference_columns(dnas, unas, ratio_.data() + tile.row0, col_.data() + tile.col0,
                                   x, sums_.data() + tile.col0);
  }

  void share(const SlotShare& share) { share.complete_lines(std::span<double>(sums_)); }

  double total() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

 private:
  PooledVector<double> col_;
  PooledVector<T> row_;          // −δ
  PooledVector<double> ratio_;   // π_dnas = π_unas exp(ratio_i − g_j)
  PooledVector<double> factor_;  // ξ_ij = π_dnas factor_i
  PooledVector<double> sums_;    // by key; each key belongs to one lane, also in col_
};

template <class T>
class GradientRunner {
 public:
  GradientRunner(const Forward<T>& forward, const GradientTargets<T>& targets,
                 const TileProduct<T>& products, const PooledVector<WeightAdjoint<T>>& adjoints,
                 int threads)
      : forward_(forward),
        targets_(targets),
        products_(products),
        adjoints_(adjoints),
        threads_(threads),
        sinks_(targets.scores) {
    sinks_.insert(sinks_.end(), targets.energies.begin(), targets.energies.end());
    if (targets.hybrid) difference_.emplace(adjoints[0], adjoints[1]);
    if (targets.v.data != nullptr) grad_out_ = kernel::Packed<T>::of(forward.grad_out);
    // The values' gradient needs only the weights.
    uses_products_ = !sinks_.empty() || difference_;
    open_ = difference_ || (!sinks_.empty() && adjoints.front().open());
    partition_ =
        gradient_partition(forward.scores->rows(), forward.scores->cols(), sizeof(T), open_);
  }

  double run() {
    const bool can_share = std::all_of(sinks_.begin(), sinks_.end(),
                                       [](const auto* sink) { return sink->can_share(); });
    const SlotShare share(partition_, !can_share);
    const Index lanes = gradient_lanes(partition_.cols, threads_);
    for (GradientSink<T>* sink : sinks_) sink->start(lanes);
    for (Index j = 0; targets_.v.data != nullptr && j < targets_.v.rows; ++j) {
      std::fill_n(targets_.v.row(j), targets_.v.cols, T{0});
    }
    PooledVector<GradientScratch<T>> workspaces(static_cast<std::size_t>(lanes));
    const auto totals = [&](const kernel::RankShare::Visit& visit) {
      for (GradientSink<T>* sink : sinks_) sink->visit_totals(visit);
    };
    const auto add_slots = [&] {
      kernel::add_in_order(
          share.own_count(), threads_,
          [&](Index n, Index lane) {
            const Index slot = share.own_slot(n);
            for (Index p = partition_.first_panel(slot); p < partition_.first_panel(slot + 1);
                 ++p) {
              kernel::stop_if_asked();
              run_panel(p, lane, workspaces[static_cast<std::size_t>(lane)]);
            }
          },
          [&](Index n, Index lane) {
            share.add_in_turn(share.own_slot(n), totals, [&] {
              for (GradientSink<T>* sink : sinks_) sink->merge(lane);
            });
          });
    };
    share.run(add_slots, [&] {
      share.take_totals(totals);
      if (targets_.v.data != nullptr) share.complete_lines(targets_.v);
      if (difference_) difference_->share(share);
      for (GradientSink<T>* sink : sinks_) {
        if (share.divided()) sink->share(share);
      }
    });
    for (GradientSink<T>* sink : sinks_) sink->finish();
    return difference_ ? difference_->total() : 0;
  }

 private:
  void run_panel(Index index, Index lane, GradientScratch<T>& workspace) {
    const RowRange keys = partition_.lines(index);
    const Index first = keys.first;
    const Index count = keys.last - first;
    const PanelLayout layout{{0, partition_.rows, first, count}, open_};
    workspace.weights.resize(adjoints_.size() > 1 && !open_ ? 2 : adjoints_.size());
    PooledVector<TileRange> tiles;
    for (Index row0 = 0; row0 < partition_.rows; row0 += gradient_tile_rows) {
      const TileRange tile{row0, std::min(gradient_tile_rows, partition_.rows - row0), first,
                           count};
      if (!forward_.scores->empty(tile)) tiles.push_back(tile);
    }
    if (!open_) {
      for (const TileRange& tile : tiles) {
        make(layout, tile, workspace);
        use(layout, tile, lane, workspace);
      }
      return;
    }
    workspace.column_sums.assign(static_cast<std::size_t>(count), 0.0);
    for (const TileRange& tile : tiles) {
      make(layout, tile, workspace);
      kernel::add_adjoint_columns(layout.view(workspace.weights[0], tile),
                                  terms(0, layout, tile, workspace), workspace.column_sums.data());
    }
    if (difference_) {
      PooledVector<double> mass(static_cast<std::size_t>(count), 0.0);
      for (const TileRange& tile : tiles) {
        difference_->weigh(layout.view(workspace.weights[0], tile), tile, mass);
      }
      difference_->mend(first, mass);
      for (const TileRange& tile : tiles) {
        difference_->add(layout.view(workspace.weights[0], tile),
                         layout.view(workspace.weights[1], tile),
                         layout.view(workspace.products, tile), tile);
      }
    }
    workspace.columns.clear();
    for (const double sum : workspace.column_sums) {
      workspace.columns.push_back(static_cast<T>(-sum));
    }
    for (const TileRange& tile : tiles) use(layout, tile, lane, workspace);
  }

  // Makes the scores, or the only weights if they are exp(s), and G; with open columns all weights,
  // too.
  void make(const PanelLayout& layout, const TileRange& tile, GradientScratch<T>& workspace) const {
    const MatrixView<T> first = layout.view(workspace.weights[0], tile);
    if (adjoints_.front().f.empty()) {
      forward_.scores->fill_exponentials(tile, first, workspace.scratch, nullptr, nullptr);
    } else {
      forward_.scores->fill(tile, first, workspace.scratch);
    }
    if (uses_products_) {
      const MatrixView<T> g = layout.view(workspace.products, tile);
      forward_.products != nullptr ? forward_.products->read(tile, g) : products_.fill(tile, g);
    }
    if (!open_) return;
    for (std::size_t n = adjoints_.size(); n-- > 0;) {
      exponentials(n, layout.view(workspace.weights[0], tile),
                   layout.view(workspace.weights[n], tile), tile);
    }
  }

  void exponentials(std::size_t n, MatrixView<const T> scores, MatrixView<T> weights,
                    const TileRange& tile) const {
    const WeightAdjoint<T>& adjoint = adjoints_[n];
    for (Index i = 0; i < tile.rows; ++i) {
      kernel::exp_row(weights.row(i), scores.row(i), tile.cols, adjoint.g.data() + tile.col0,
                      adjoint.f[static_cast<std::size_t>(tile.row0 + i)]);
    }
  }

  // The weights of adjoint n; the first replaces the scores, so it goes last.
  MatrixView<T> weights(std::size_t n, const PanelLayout& layout, const TileRange& tile,
                        GradientScratch<T>& workspace) const {
    if (open_ || adjoints_[n].f.empty()) return layout.view(workspace.weights[n], tile);
    const MatrixView<T> scores = layout.view(workspace.weights[0], tile);
    const MatrixView<T> made = n == 0 ? scores : layout.view(workspace.weights[1], tile);
    exponentials(n, scores, made, tile);
    return made;
  }

  kernel::Adjoint<T> terms(std::size_t n, const PanelLayout& layout, const TileRange& tile,
                           GradientScratch<T>& workspace) const {
    const WeightAdjoint<T>& adjoint = adjoints_[n];
    kernel::Adjoint<T> terms;
    terms.weight = static_cast<T>(adjoint.coefficient);
    if (adjoint.coefficient != 0) terms.g = layout.view(workspace.products, tile);
    terms.row = adjoint.row.data() + tile.row0;
    return terms;
  }

  void use(const PanelLayout& layout, const TileRange& tile, Index lane,
           GradientScratch<T>& workspace) const {
    if (sinks_.empty() && targets_.v.data == nullptr) return;
    const bool one = adjoints_.size() == 1;
    MatrixView<T> gradient;
    if (!sinks_.empty()) {
      gradient = one ? layout.view(workspace.products, tile)
                     : PanelLayout{layout.panel, false}.view(workspace.gradient, tile);
    }
    for (std::size_t n = adjoints_.size(); n-- > 0;) {
      const WeightAdjoint<T>& adjoint = adjoints_[n];
      if (sinks_.empty() && adjoint.coefficient == 0) continue;
      const MatrixView<T> weights_of_n = weights(n, layout, tile, workspace);
      if (!sinks_.empty()) {
        kernel::Adjoint<T> x = terms(n, layout, tile, workspace);
        if (!adjoint.factor.empty()) {
          x.factor = adjoint.factor.data() + tile.row0;
          x.col = adjoint.open() ? workspace.columns.data() : adjoint.col.data() + tile.col0;
        }
        kernel::adjoint_of_scores(weights_of_n, x, n + 1 < adjoints_.size(), gradient);
      }
      if (!is_mixed_into_first(n)) add_to_values(n, layout, weights_of_n, tile, workspace);
    }
    for (GradientSink<T>* sink : targets_.scores) sink->add(tile, gradient, lane);
    if (targets_.energies.empty()) return;
    take_soft_cap(tile, layout.view(workspace.weights[0], tile), gradient);
    for (GradientSink<T>* sink : targets_.energies) sink->add(tile, gradient, lane);
  }

  // The two parts of a mixture share one product with dO.
  bool is_mixed_into_first(std::size_t n) const {
    return n == 1 && adjoints_[1].coefficient != 0 && adjoints_[0].coefficient != 0;
  }

  void add_to_values(std::size_t n, const PanelLayout& layout, MatrixView<T> weights,
                     const TileRange& tile, GradientScratch<T>& workspace) const {
    const double coefficient = adjoints_[n].coefficient;
    if (targets_.v.data == nullptr || coefficient == 0) return;
    if (coefficient != 1) {
      for (Index i = 0; i < weights.rows; ++i) {
        kernel::scale_row(weights.row(i), weights.cols, coefficient);
      }
    }
    if (n == 0 && adjoints_.size() > 1 && is_mixed_into_first(1)) {
      const MatrixView<T> second = layout.view(workspace.weights[1], tile);
      for (Index i = 0; i < weights.rows; ++i) {
        kernel::add_scaled_row(weights.row(i), second.row(i), weights.cols,
                               adjoints_[1].coefficient);
      }
    }
    if (forward_.dropout.any()) forward_.dropout.apply(tile, weights);
    kernel::multiply_add_transposed_packed<T>(weights, grad_out_, tile.row0,
                                              targets_.v.row_range(tile.col0, tile.cols));
  }

  // Turns the scores' gradient into the energies', which are computed again in `scratch`.
  void take_soft_cap(const TileRange& tile, MatrixView<T> scratch, MatrixView<T> gradient) const {
    const auto& scores = forward_.scores->terms();
    if (!scores.softcap) return;
    scores.energy->fill(tile, scratch);
    for (Index i = 0; i < tile.rows; ++i) {
      kernel::soft_cap_slope(gradient.row(i), scratch.row(i), tile.cols, *scores.softcap);
    }
  }

  const Forward<T>& forward_;
  const GradientTargets<T>& targets_;
  const TileProduct<T>& products_;
  const PooledVector<WeightAdjoint<T>>& adjoints_;
  int threads_;
  kernel::Packed<T> grad_out_;  // packed once, for the values' gradient
  PooledVector<GradientSink<T>*> sinks_;
  Partition partition_;
  bool uses_products_ = false;
  bool open_ = false;
  std::optional<HybridSum<T>> difference_;
};

}  // namespace

template <class T>
double differentiate_weights(const Forward<T>& forward, const TileProduct<T>& products,
                             PooledVector<WeightAdjoint<T>> adjoints,
                             const GradientTargets<T>& targets, int threads) {
  Buffer<T> scaled;
  if (!fold_rows(forward, adjoints.front(), scaled)) {
    return GradientRunner<T>(forward, targets, products, adjoints, threads).run();
  }
  Forward<T> folded = forward;
  folded.grad_out = {scaled.data(), forward.grad_out.rows, forward.grad_out.cols};
  const TileProduct<T> scaled_products(folded.grad_out, forward.v, T{1}, forward.dropout);
  return GradientRunner<T>(folded, targets, scaled_products, adjoints, threads).run();
}

Index gradient_lanes(Index cols, int threads) {
  return std::clamp<Index>(threads, 1, gradient_partition(0, cols, sizeof(double), false).slots);
}

std::int64_t differentiate_weights_bytes(const GradientSizes& sizes, const AdjointNeeds& needs) {
  const Index rows = sizes.rows;
  const Index cols = sizes.cols;
  const auto element = static_cast<std::int64_t>(sizes.element_size);
  const Partition partition = gradient_partition(rows, cols, sizes.element_size, needs.open);
  const Index tile_rows = std::min(rows, gradient_tile_rows);
  const Index held =
      (needs.several ? 3 : 2) * (needs.open ? rows : tile_rows) + (needs.several ? tile_rows : 0);
  std::int64_t bytes =
      gradient_lanes(cols, sizes.threads) *
      (held * partition.panel * element + gradient_tile_rows * partition.panel * (2 * element + 1));
  const auto number = static_cast<std::int64_t>(sizeof(double));
  bytes += (rows + cols) * (needs.sets + 1) * number + (2 * rows + cols) * needs.sets * element;
  bytes += tile_product_bytes(rows, cols, sizes.v_head_dim, sizes.element_size);
  bytes += kernel::packed_bytes(rows, sizes.v_head_dim, sizes.element_size);
  bytes += (rows + 2 * cols) * sizes.v_head_dim * element;  // CentredValues
  return bytes;
}

std::int64_t adjoint_pass_bytes(const GradientSizes& sizes) {
  const Index rows = sizes.rows;
  const Index cols = sizes.cols;
  const Partition columns = partition_of(Order::column_panels, rows, cols, sizes.element_size);
  const auto pass = [&](Order order) {
    return pass_bytes(order, rows, cols, 1, sizes.element_size, sizes.threads);
  };
  return columns.slots * std::min(rows, pass_tile_length) * columns.panel *
             static_cast<std::int64_t>(sizes.element_size) +
         std::max(pass(Order::row_panels), pass(Order::column_panels));
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template double differentiate_weights(const Forward<T>&, const TileProduct<T>&,                  \
                                        PooledVector<WeightAdjoint<T>>, const GradientTargets<T>&, \
                                        int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
