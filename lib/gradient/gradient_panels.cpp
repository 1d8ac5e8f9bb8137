#include "gradient/gradient_panels.hpp"

#include <algorithm>

#include "kernel/tile.hpp"

namespace attn {

// The tiles in memory: one after the other for a whole panel, or all at the beginning.
template <class T>
struct GradientPanels<T>::Layout {
  TileRange panel;
  bool whole = false;

  MatrixView<T> view(Buffer<T>& storage, const TileRange& tile) const {
    storage.reserve((whole ? panel.rows : tile.rows) * panel.cols);
    return {storage.data() + (whole ? tile.row0 * panel.cols : 0), tile.rows, tile.cols};
  }
};

template <class T>
GradientPanels<T>::GradientPanels(const Forward<T>& forward, const TileProduct<T>& products,
                                  const PooledVector<WeightAdjoint<T>>& adjoints,
                                  const GradientTargets<T>& targets)
    : forward_(forward),
      targets_(targets),
      products_(products),
      adjoints_(adjoints),
      sinks_(targets.scores) {
  sinks_.insert(sinks_.end(), targets.energies.begin(), targets.energies.end());
  if (targets.hybrid) difference_.emplace(adjoints[0], adjoints[1]);
  if (targets.v.data != nullptr) grad_out_ = kernel::Packed<T>::of(forward.grad_out);
  // The values' gradient needs only the weights.
  uses_products_ = !sinks_.empty() || difference_;
  open_ = difference_ || (!sinks_.empty() && adjoints.front().open());
}

template <class T>
PooledVector<TileRange> GradientPanels<T>::tiles_of(RowRange keys) const {
  PooledVector<TileRange> tiles;
  const Index rows = forward_.scores->rows();
  for (Index row0 = 0; row0 < rows; row0 += gradient_tile_rows) {
    const TileRange tile{row0, std::min(gradient_tile_rows, rows - row0), keys.first,
                         keys.last - keys.first};
    if (!forward_.scores->empty(tile)) tiles.push_back(tile);
  }
  return tiles;
}

template <class T>
void GradientPanels<T>::run(RowRange keys, Index lane, Scratch& work) {
  const Layout layout{{0, forward_.scores->rows(), keys.first, keys.last - keys.first}, open_};
  work.weights.resize(adjoints_.size() > 1 && !open_ ? 2 : adjoints_.size());
  const PooledVector<TileRange> tiles = tiles_of(keys);
  if (open_) complete_columns(layout, tiles, work);
  for (const TileRange& tile : tiles) {
    if (!open_) {
      make_scores(layout, tile, work);
      if (uses_products_) make_products(layout, tile, work);
    }
    use(layout, tile, lane, work);
  }
}

// Makes all weights and G.
template <class T>
void GradientPanels<T>::make_and_sum(const Layout& layout, const TileRange& tile, Scratch& work,
                                     double* sums) const {
  make_scores(layout, tile, work);
  make_products(layout, tile, work);
  const MatrixView<T> scores = layout.view(work.weights[0], tile);
  for (std::size_t n = adjoints_.size(); n-- > 0;) {
    exponentials(n, scores, layout.view(work.weights[n], tile), tile);
  }
  kernel::add_adjoint_columns(scores, terms(0, layout, tile, work), sums);
}

// Makes all tiles of a panel.
template <class T>
void GradientPanels<T>::complete_columns(const Layout& layout, const PooledVector<TileRange>& tiles,
                                         Scratch& work) {
  const auto count = static_cast<std::size_t>(layout.panel.cols);
  work.column_sums.assign(count, 0.0);
  for (const TileRange& tile : tiles) make_and_sum(layout, tile, work, work.column_sums.data());
  if (difference_) {
    PooledVector<double> mass(count, 0.0);
    for (const TileRange& tile : tiles) {
      difference_->weigh(layout.view(work.weights[0], tile), tile, mass);
    }
    difference_->mend(layout.panel.col0, mass);
    for (const TileRange& tile : tiles) {
      difference_->add(layout.view(work.weights[0], tile), layout.view(work.weights[1], tile),
                       layout.view(work.products, tile), tile);
    }
  }
  work.columns.clear();
  for (const double sum : work.column_sums) work.columns.push_back(static_cast<T>(-sum));
}

// Makes the scores; if the weights are exp(s), makes these instead.
template <class T>
void GradientPanels<T>::make_scores(const Layout& layout, const TileRange& tile,
                                    Scratch& work) const {
  const MatrixView<T> first = layout.view(work.weights[0], tile);
  if (adjoints_.front().f.empty()) {
    forward_.scores->fill_exponentials(tile, first, work.scratch, nullptr, nullptr);
  } else {
    forward_.scores->fill(tile, first, work.scratch);
  }
}

template <class T>
void GradientPanels<T>::make_products(const Layout& layout, const TileRange& tile,
                                      Scratch& work) const {
  const MatrixView<T> g = layout.view(work.products, tile);
  forward_.products != nullptr ? forward_.products->read(tile, g) : products_.fill(tile, g);
}

template <class T>
void GradientPanels<T>::exponentials(std::size_t n, MatrixView<const T> scores,
                                     MatrixView<T> weights, const TileRange& tile) const {
  const WeightAdjoint<T>& adjoint = adjoints_[n];
  for (Index i = 0; i < tile.rows; ++i) {
    kernel::exp_row(weights.row(i), scores.row(i), tile.cols, adjoint.g.data() + tile.col0,
                    adjoint.f[static_cast<std::size_t>(tile.row0 + i)]);
  }
}

// The weights of adjoint n; the first replaces the scores, so it goes last.
template <class T>
MatrixView<T> GradientPanels<T>::weights(std::size_t n, const Layout& layout, const TileRange& tile,
                                         Scratch& work) const {
  if (open_ || adjoints_[n].f.empty()) return layout.view(work.weights[n], tile);
  const MatrixView<T> scores = layout.view(work.weights[0], tile);
  const MatrixView<T> made = n == 0 ? scores : layout.view(work.weights[1], tile);
  exponentials(n, scores, made, tile);
  return made;
}

template <class T>
kernel::Adjoint<T> GradientPanels<T>::terms(std::size_t n, const Layout& layout,
                                            const TileRange& tile, Scratch& work) const {
  const WeightAdjoint<T>& adjoint = adjoints_[n];
  kernel::Adjoint<T> terms;
  terms.weight = static_cast<T>(adjoint.coefficient);
  if (adjoint.coefficient != 0) terms.g = layout.view(work.products, tile);
  terms.row = adjoint.row.data() + tile.row0;
  return terms;
}

template <class T>
void GradientPanels<T>::use(const Layout& layout, const TileRange& tile, Index lane,
                            Scratch& work) const {
  if (sinks_.empty() && targets_.v.data == nullptr) return;
  const bool one = adjoints_.size() == 1;
  MatrixView<T> gradient;
  if (!sinks_.empty()) {
    gradient = one ? layout.view(work.products, tile)
                   : Layout{layout.panel, false}.view(work.gradient, tile);
  }
  for (std::size_t n = adjoints_.size(); n-- > 0;) {
    const WeightAdjoint<T>& adjoint = adjoints_[n];
    if (sinks_.empty() && adjoint.coefficient == 0) continue;
    const MatrixView<T> weights_of_n = weights(n, layout, tile, work);
    if (!sinks_.empty()) {
      kernel::Adjoint<T> x = terms(n, layout, tile, work);
      if (!adjoint.factor.empty()) {
        x.factor = adjoint.factor.data() + tile.row0;
        x.col = adjoint.open() ? work.columns.data() : adjoint.col.data() + tile.col0;
      }
      kernel::adjoint_of_scores(weights_of_n, x, n + 1 < adjoints_.size(), gradient);
    }
    if (!is_mixed_into_first(n)) add_to_values(n, layout, weights_of_n, tile, work);
  }
  for (GradientSink<T>* sink : targets_.scores) sink->add(tile, gradient, lane);
  if (targets_.energies.empty()) return;
  take_soft_cap<T>(forward_.scores->terms(), tile, layout.view(work.weights[0], tile), gradient);
  for (GradientSink<T>* sink : targets_.energies) sink->add(tile, gradient, lane);
}

// The two parts of a mixture share one product with dO.
template <class T>
bool GradientPanels<T>::is_mixed_into_first(std::size_t n) const {
  return n == 1 && adjoints_[1].coefficient != 0 && adjoints_[0].coefficient != 0;
}

template <class T>
void GradientPanels<T>::add_to_values(std::size_t n, const Layout& layout, MatrixView<T> weights,
                                      const TileRange& tile, Scratch& work) const {
  const double coefficient = adjoints_[n].coefficient;
  if (targets_.v.data == nullptr || coefficient == 0) return;
  if (coefficient != 1) {
    for (Index i = 0; i < weights.rows; ++i) {
      kernel::scale_row(weights.row(i), weights.cols, coefficient);
    }
  }
  if (n == 0 && adjoints_.size() > 1 && is_mixed_into_first(1)) {
    const MatrixView<T> second = layout.view(work.weights[1], tile);
    for (Index i = 0; i < weights.rows; ++i) {
      kernel::add_scaled_row(weights.row(i), second.row(i), weights.cols, adjoints_[1].coefficient);
    }
  }
  if (forward_.dropout.any()) forward_.dropout.apply(tile, weights);
  kernel::multiply_add_transposed_packed<T>(weights, grad_out_, tile.row0,
                                            targets_.v.row_range(tile.col0, tile.cols));
}

template <class T>
void take_soft_cap(const typename Scores<T>::Terms& terms, const TileRange& tile,
                   MatrixView<T> scratch, MatrixView<T> gradient) {
  if (!terms.softcap) return;
  terms.energy->fill(tile, scratch);
  for (Index i = 0; i < tile.rows; ++i) {
    kernel::soft_cap_slope(gradient.row(i), scratch.row(i), tile.cols, *terms.softcap);
  }
}

template void take_soft_cap<float>(const Scores<float>::Terms&, const TileRange&, MatrixView<float>,
                                   MatrixView<float>);
template void take_soft_cap<double>(const Scores<double>::Terms&, const TileRange&,
                                    MatrixView<double>, MatrixView<double>);

template class GradientPanels<float>;
template class GradientPanels<double>;

}  // namespace attn
