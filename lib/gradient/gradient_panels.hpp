#pragma once

#include <optional>

#include "gradient/gradient.hpp"
#include "gradient/hybrid_sum.hpp"
#include "kernel/gradient.hpp"
#include "kernel/packed.hpp"

namespace attn {

/// Processes the panels of keys of a gradient: makes their scores, weights and G tile by tile,
/// shows dS to the sinks, and adds to dV.
template <class T>
class GradientPanels {
 public:
  /// Memory of one thread.
  struct Scratch {
    PooledVector<Buffer<T>> weights;  ///< by adjoint; the first starts as the scores
    Buffer<T> products;               ///< G
    Buffer<T> gradient;               ///< of a tile
    typename Scores<T>::Scratch scratch;
    PooledVector<double> column_sums;
    PooledVector<T> columns;
  };

  /// All arguments must outlive the object. Gradients go where differentiate_weights puts them;
  /// gradients of v are added.
  GradientPanels(const Forward<T>& forward, const TileProduct<T>& products,
                 const PooledVector<WeightAdjoint<T>>& adjoints, const GradientTargets<T>& targets);

  /// Whether columns are completed before they are used, so that `run` holds a whole panel.
  bool open() const { return open_; }

  /// All sinks of the targets.
  const PooledVector<GradientSink<T>*>& sinks() const { return sinks_; }

  /// The sums of du, if requested.
  std::optional<HybridSum<T>>& difference() { return difference_; }

  /// Panels of a slot come in order. Several threads may take a slot each, in lanes of their own.
  void run(RowRange keys, Index lane, Scratch& work);

 private:
  struct Layout;

  PooledVector<TileRange> tiles_of(RowRange keys) const;
  void complete_columns(const Layout& layout, const PooledVector<TileRange>& tiles, Scratch& work);
  void make_scores(const Layout& layout, const TileRange& tile, Scratch& work) const;
  void make_products(const Layout& layout, const TileRange& tile, Scratch& work) const;
  void exponentials(std::size_t n, MatrixView<const T> scores, MatrixView<T> weights,
                    const TileRange& tile) const;
  MatrixView<T> weights(std::size_t n, const Layout& layout, const TileRange& tile,
                        Scratch& work) const;
  kernel::Adjoint<T> terms(std::size_t n, const Layout& layout, const TileRange& tile,
                           Scratch& work) const;
  void make_and_sum(const Layout& layout, const TileRange& tile, Scratch& work, double* sums) const;
  void use(const Layout& layout, const TileRange& tile, Index lane, Scratch& work) const;
  bool is_mixed_into_first(std::size_t n) const;
  void add_to_values(std::size_t n, const Layout& layout, MatrixView<T> weights,
                     const TileRange& tile, Scratch& work) const;

  const Forward<T>& forward_;
  const GradientTargets<T>& targets_;
  const TileProduct<T>& products_;
  const PooledVector<WeightAdjoint<T>>& adjoints_;
  kernel::Packed<T> grad_out_;  // packed once, for the values' gradient
  PooledVector<GradientSink<T>*> sinks_;
  bool uses_products_ = false;
  bool open_ = false;
  std::optional<HybridSum<T>> difference_;
};

/// Turns the gradient of the scores of a tile into that of the energies, which are computed again
/// in `scratch` if there is a soft cap.
template <class T>
void take_soft_cap(const typename Scores<T>::Terms& terms, const TileRange& tile,
                   MatrixView<T> scratch, MatrixView<T> gradient);

}  // namespace attn
