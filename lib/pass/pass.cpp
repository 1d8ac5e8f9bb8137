#include "pass/pass.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernel/tile.hpp"
#include "pass/completed_row.hpp"
#include "pass/potentials.hpp"
#include "pass/selected_rows.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

const double* data_or_null(const PooledVector<double>& values) {
  return values.empty() ? nullptr : values.data();
}

// One thread's scratch: the panel of scores, and a panel of weights per further component of a
// mixture.
template <class T>
struct PanelScratch {
  PooledVector<Buffer<T>> panels;
  typename Scores<T>::Scratch scratch;
  PooledVector<double> shift;
  PooledVector<double> sum;
  PooledVector<double> factor;
};

// A panel as a list of tiles, side by side in the workspace; empty tiles, which may lie at both
// ends of it, are skipped.
struct PanelTiles {
  struct Place {
    TileRange range;
    bool empty = false;
  };
  TileRange panel;
  Index stride = 0;
  PooledVector<TileRange> tiles;  // without empty ones
  PooledVector<Place> all;        // in order

  template <class T>
  MatrixView<T> view(const Buffer<T>& storage, const TileRange& tile) const {
    T* first = storage.data() + (tile.row0 - panel.row0) * stride + (tile.col0 - panel.col0);
    return MatrixView<T>(first, tile.rows, tile.cols, stride);
  }
};

template <class T>
class PanelRunner {
 public:
  PanelRunner(const Pass<T>& pass, int threads)
      : pass_(pass),
        partition_(partition_of(pass.order, pass.scores->rows(), pass.scores->cols(), sizeof(T))),
        threads_(threads) {
    check();
    for (const Observer<T>* observer : pass.observers) {
      show_empty_ = show_empty_ || observer->wants_empty_tiles();
    }
    for (const Component& component : pass.components) {
      // The potential that the pass completes is not read.
      row_.push_back(
          to_subtract(pass.completes == Completes::rows ? std::span<double>() : component.row));
      col_.push_back(
          to_subtract(pass.completes == Completes::columns ? std::span<double>() : component.col));
      // Given row potentials are not values of T, so differences must be taken in float64.
      if (pass.completes == Completes::nothing && col_.back().empty()) {
        col_.back().assign(static_cast<std::size_t>(partition_.cols), 0.0);
      }
    }
  }

  void run() {
    if (!pass_.resumes) {
      for (Observer<T>* observer : pass_.observers) observer->start(partition_);
    }
    auto workspaces = workspaces_for<PanelScratch<T>>(threads_);
    const SlotShare share = share_of<T>(partition_, pass_.observers);
    for_each_panel(share, threads_, pass_.rows, workspaces,
                   [&](Index panel, Index slot, PanelScratch<T>& workspace) {
                     run_panel(panel, slot, workspace);
                   });
    for (const Component& component : pass_.components) {
      if (pass_.completes == Completes::rows) share.complete_lines(component.row);
      if (pass_.completes == Completes::columns) share.complete_lines(component.col);
    }
    share_gathered<T>(pass_.observers, share);
    finish<T>(pass_.observers);
  }

 private:
  void check() const {
    const bool fits = pass_.completes == Completes::nothing ||
                      (pass_.completes == Completes::rows && pass_.order == Order::row_panels) ||
                      (pass_.completes == Completes::columns &&
                       pass_.order == Order::column_panels && pass_.components.size() == 1);
    const bool selects = pass_.rows != nullptr && pass_.order != Order::row_panels;
    if (!fits || selects || pass_.components.empty()) {
      throw std::logic_error("a pass in this order cannot complete these potentials");
    }
  }

  void run_panel(Index index, Index slot, PanelScratch<T>& workspace) {
    const PanelTiles panel = make_panel(index);
    fill(panel, workspace);
    switch (pass_.completes) {
      case Completes::rows:
        complete_rows(panel, workspace);
        break;
      case Completes::columns:
        complete_columns(panel, workspace);
        break;
      case Completes::nothing:
        apply_potentials(panel, workspace);
        break;
    }
    if (pass_.observers.empty()) return;
    for (const auto& [tile, empty] : panel.all) {
      const auto weights = panel.view(workspace.panels[0], tile);
      if (!empty) {
        finish_tile(panel, tile, workspace);
      } else if (show_empty_) {
        for (Index i = 0; i < tile.rows; ++i) std::fill_n(weights.row(i), tile.cols, T{0});
      }
      for (Observer<T>* observer : pass_.observers) {
        if (!empty || observer->wants_empty_tiles()) show(*observer, tile, weights, slot);
      }
    }
  }

  // The chosen queries of a tile.
  void show(Observer<T>& observer, const TileRange& tile, MatrixView<const T> weights,
            Index slot) const {
    if (pass_.rows == nullptr) {
      observer.observe(WeightTile<T>{tile, weights}, slot);
    } else {
      show_chosen(*pass_.rows, WeightTile<T>{tile, weights}, slot, observer);
    }
  }

  PanelTiles make_panel(Index index) const {
    const bool by_row = pass_.order == Order::row_panels;
    const Index length = by_row ? partition_.cols : partition_.rows;
    const RowRange lines = partition_.lines(index);
    const Index first = lines.first;
    const Index count = lines.last - first;
    PanelTiles panel;
    panel.panel = by_row ? TileRange{first, count, 0, length} : TileRange{0, length, first, count};
    panel.stride = panel.panel.cols;
    for (Index at = 0; at < length; at += pass_tile_length) {
      const Index extent = std::min(pass_tile_length, length - at);
      const TileRange tile =
          by_row ? TileRange{first, count, at, extent} : TileRange{at, extent, first, count};
      const bool empty = pass_.scores->empty(tile);
      panel.all.push_back({tile, empty});
      if (!empty) panel.tiles.push_back(tile);
    }
    return panel;
  }

  // Writes the scores to panel 0; further components, whose exponentials differ, have panels of
  // their own.
  void fill(const PanelTiles& panel, PanelScratch<T>& workspace) {
    const Index size = panel.panel.rows * panel.panel.cols;
    workspace.panels.resize(pass_.components.size());
    for (Buffer<T>& storage : workspace.panels) storage.reserve(size);
    for (const TileRange& tile : panel.tiles) {
      pass_.scores->fill(tile, panel.view(workspace.panels[0], tile), workspace.scratch);
    }
  }

  const double* col_potential(std::size_t component, const TileRange& tile) const {
    const double* g = data_or_null(col_[component]);
    return g == nullptr ? nullptr : g + tile.col0;
  }

  const double* row_potential(std::size_t component, const TileRange& tile) const {
    const double* f = data_or_null(row_[component]);
    return f == nullptr ? nullptr : f + tile.row0;
  }

  // Component 0 overwrites the scores with its exponentials, so it goes last.
  static std::size_t component_at(std::size_t step, std::size_t components) {
    return components - 1 - step;
  }

  // f_i = m_i + log Σ_j exp((s_ij − g_j) − m_i) − log a_i. Leaves exp((s − g) − m) in the panels,
  // and the factors that turn them into weights in workspace.factor.
  void complete_rows(const PanelTiles& panel, PanelScratch<T>& workspace) {
    const Index rows = panel.panel.rows;
    const std::size_t count = pass_.components.size();
    workspace.factor.assign(count * static_cast<std::size_t>(rows), 0.0);
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t c = component_at(step, count);
      row_shifts(panel, workspace, c);
      row_sums(panel, workspace, c);
      for (Index i = 0; i < rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const Index row = panel.panel.row0 + i;
        const CompletedRow completed =
            completed_row(workspace.shift[at], workspace.sum[at], pass_.sink, marginal(row),
                          pass_.components[c].coefficient);
        pass_.components[c].row[static_cast<std::size_t>(row)] = completed.f;
        workspace.factor[c * static_cast<std::size_t>(rows) + at] = completed.factor;
      }
    }
  }

  double marginal(Index line) const {
    return pass_.log_marginal.empty() ? 0.0 : pass_.log_marginal[static_cast<std::size_t>(line)];
  }

  void row_shifts(const PanelTiles& panel, PanelScratch<T>& workspace, std::size_t c) {
    workspace.shift.assign(static_cast<std::size_t>(panel.panel.rows), minus_infinity);
    for (const TileRange& tile : panel.tiles) {
      const auto s = panel.view(workspace.panels[0], tile);
      for (Index i = 0; i < tile.rows; ++i) {
        double& shift = workspace.shift[static_cast<std::size_t>(i)];
        shift = std::max(shift, kernel::row_max(s.row(i), tile.cols, col_potential(c, tile)));
      }
    }
    for (double& shift : workspace.shift) {
      if (shift == minus_infinity) shift = 0;
    }
  }

  void row_sums(const PanelTiles& panel, PanelScratch<T>& workspace, std::size_t c) {
    workspace.sum.assign(static_cast<std::size_t>(panel.panel.rows), 0.0);
    for (const TileRange& tile : panel.tiles) {
      const auto s = panel.view(workspace.panels[0], tile);
      const auto e = panel.view(workspace.panels[c], tile);
      for (Index i = 0; i < tile.rows; ++i) {
        const auto at = static_cast<std::size_t>(tile.row0 - panel.panel.row0 + i);
        workspace.sum[at] += kernel::exp_row(e.row(i), s.row(i), tile.cols, col_potential(c, tile),
                                             workspace.shift[at]);
      }
    }
  }

  // complete_rows for the columns of a panel, in place.
  void complete_columns(const PanelTiles& panel, PanelScratch<T>& workspace) {
    const auto cols = static_cast<std::size_t>(panel.panel.cols);
    workspace.shift.assign(cols, minus_infinity);
    workspace.sum.assign(cols, 0.0);
    workspace.factor.assign(cols, 0.0);
    for (const TileRange& tile : panel.tiles) {
      kernel::column_max(panel.view(workspace.panels[0], tile), row_potential(0, tile),
                         workspace.shift.data());
    }
    for (double& shift : workspace.shift) {
      if (shift == minus_infinity) shift = 0;
    }
    for (const TileRange& tile : panel.tiles) {
      kernel::exp_columns(panel.view(workspace.panels[0], tile), row_potential(0, tile),
                          workspace.shift.data(), workspace.sum.data());
    }
    for (std::size_t j = 0; j < cols; ++j) {
      const Index col = panel.panel.col0 + static_cast<Index>(j);
      const double log_marginal = marginal(col);
      const bool empty = workspace.sum[j] == 0 || log_marginal == minus_infinity;
      pass_.components[0].col[static_cast<std::size_t>(col)] =
          empty ? minus_infinity : workspace.shift[j] + std::log(workspace.sum[j]) - log_marginal;
      workspace.factor[j] =
          empty ? 0.0 : pass_.components[0].coefficient * std::exp(log_marginal) / workspace.sum[j];
    }
  }

  // Both potentials are given: exp((s − g) − f) at once.
  void apply_potentials(const PanelTiles& panel, PanelScratch<T>& workspace) {
    const auto rows = static_cast<std::size_t>(panel.panel.rows);
    const std::size_t count = pass_.components.size();
    workspace.factor.clear();
    for (const Component& component : pass_.components) {
      workspace.factor.insert(workspace.factor.end(), rows, component.coefficient);
    }
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t c = component_at(step, count);
      workspace.shift.assign(rows, 0.0);
      if (!row_[c].empty())
        std::copy_n(row_[c].begin() + panel.panel.row0, rows, workspace.shift.begin());
      row_sums(panel, workspace, c);
    }
  }

  // Turns exponentials into weights, and the parts of a mixture into one.
  void finish_tile(const PanelTiles& panel, const TileRange& tile, PanelScratch<T>& workspace) {
    const auto weights = panel.view(workspace.panels[0], tile);
    if (pass_.completes == Completes::columns) {
      kernel::scale_columns(weights, workspace.factor.data());
      return;
    }
    const auto rows = static_cast<std::size_t>(panel.panel.rows);
    for (Index i = 0; i < tile.rows; ++i) {
      const auto at = static_cast<std::size_t>(tile.row0 - panel.panel.row0 + i);
      kernel::scale_row(weights.row(i), tile.cols, workspace.factor[at]);
      for (std::size_t c = 1; c < pass_.components.size(); ++c) {
        kernel::add_scaled_row(weights.row(i), panel.view(workspace.panels[c], tile).row(i),
                               tile.cols, workspace.factor[c * rows + at]);
      }
    }
  }

  const Pass<T>& pass_;
  Partition partition_;
  int threads_;
  bool show_empty_ = false;
  PooledVector<PooledVector<double>> row_;  // per component, as subtracted; empty: zero
  PooledVector<PooledVector<double>> col_;
};

}  // namespace

template <class T>
void run(const Pass<T>& pass, int threads) {
  PanelRunner<T>(pass, threads).run();
}

std::int64_t pass_bytes(Order order, Index rows, Index cols, std::size_t components,
                        std::size_t element_size, int threads) {
  const Partition partition = partition_of(order, rows, cols, element_size);
  const Index length = order == Order::row_panels ? cols : rows;
  const auto element = static_cast<std::int64_t>(element_size);
  const std::int64_t panel = partition.panel * length * element;
  // Bias, preference and mask of a tile.
  const std::int64_t tile = partition.panel * pass_tile_length * (2 * element + 1);
  const std::int64_t workers = std::min<std::int64_t>(threads, std::max<Index>(1, partition.slots));
  return workers * (static_cast<std::int64_t>(components) * panel + tile) +
         static_cast<std::int64_t>(components * sizeof(double)) * (rows + cols);
}

template void run(const Pass<float>&, int);
template void run(const Pass<double>&, int);

}  // namespace attn
