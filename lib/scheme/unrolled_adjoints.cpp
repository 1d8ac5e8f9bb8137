#include "scheme/unrolled_adjoints.hpp"

#include "kernel/gradient.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

// x_i = Σ_j P_ij y_j, from row panels.
template <class T>
class RowDots final : public Observer<T> {
 public:
  RowDots(const Numbers& y, Numbers& x) : y_(y), x_(x) {}

  void start(const Partition& partition) override {
    x_.assign(static_cast<std::size_t>(partition.rows), 0.0);
  }
  void observe(const WeightTile<T>& tile, Index) override {
    for (Index i = 0; i < tile.range.rows; ++i) {
      x_[static_cast<std::size_t>(tile.range.row0 + i)] +=
          kernel::dot_row(tile.weights.row(i), y_.data() + tile.range.col0, tile.range.cols);
    }
  }
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override { share.complete_lines(std::span<double>(x_)); }

 private:
  const Numbers& y_;
  Numbers& x_;
};

// x_j = Σ_i P_ij (coefficient·G_ij + row_i), from column panels: each column belongs to one slot.
template <class T>
class ColumnAdjoints final : public Observer<T> {
 public:
  ColumnAdjoints(const TileProduct<T>& products, T coefficient, const PooledVector<T>& row,
                 Numbers& x)
      : all_products_(products), coefficient_(coefficient), row_(row), x_(x) {}

  void start(const Partition& partition) override {
    x_.assign(static_cast<std::size_t>(partition.cols), 0.0);
    products_.resize(static_cast<std::size_t>(partition.slots));
  }
  void observe(const WeightTile<T>& tile, Index slot) override {
    const TileRange& range = tile.range;
    kernel::Adjoint<T> adjoint;
    adjoint.weight = coefficient_;
    adjoint.row = row_.data() + range.row0;
    if (coefficient_ != T{0}) {
      adjoint.g = tile_products(all_products_, range, products_[static_cast<std::size_t>(slot)]);
    }
    kernel::add_adjoint_columns(tile.weights, adjoint, x_.data() + range.col0);
  }
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override { share.complete_lines(std::span<double>(x_)); }
  void finish() override { products_.clear(); }

 private:
  const TileProduct<T>& all_products_;
  T coefficient_;
  const PooledVector<T>& row_;
  Numbers& x_;
  PooledVector<Buffer<T>> products_;
};

template <class T>
class UnrolledAdjoints {
 public:
  UnrolledAdjoints(const Forward<T>& forward, const TileProduct<T>& products, int threads)
      : forward_(forward),
        products_(products),
        threads_(threads),
        unrolled_(unroll_attention(*forward.scores, forward.attention->allowed,
                                   forward.attention->summary.iterations, threads)) {}

  PooledVector<WeightAdjoint<T>> make() {
    const Index iterations = forward_.attention->summary.iterations;
    const Potentials& found = forward_.attention->potentials;
    PooledVector<WeightAdjoint<T>> adjoints;
    WeightAdjoint<T> last = iteration(iterations);
    last.coefficient = 1;
    last.row = narrow<T>(delta_of(forward_, products_, found.row, found.col, threads_), -1);
    if (iterations > 1) {
      Numbers columns = column_sums(iterations, last);
      last.col = narrow<T>(columns, -1);
      for (Index t = iterations - 1; t >= 1; --t) {
        const WeightAdjoint<T>& later = adjoints.empty() ? last : adjoints.back();
        WeightAdjoint<T> earlier = iteration(t);
        earlier.row = rows_before(t + 1, later, columns);
        columns = column_sums(t, earlier);
        earlier.col = narrow<T>(columns, -1);
        adjoints.push_back(std::move(earlier));
      }
    }
    adjoints.insert(adjoints.begin(), std::move(last));
    return adjoints;
  }

 private:
  const Numbers& row_potential(Index t) const {
    return unrolled_.rows[static_cast<std::size_t>(t - 1)];
  }
  const Numbers& col_potential(Index t) const {
    return unrolled_.cols[static_cast<std::size_t>(t - 1)];
  }

  WeightAdjoint<T> iteration(Index t) const {
    WeightAdjoint<T> adjoint;
    adjoint.f = to_subtract(row_potential(t));
    adjoint.g = to_subtract(col_potential(t));
    adjoint.factor =
        row_factors<T>(row_potential(t), t > 1 ? row_potential(t - 1) : Numbers(), unrolled_.log_b);
    return adjoint;
  }

  // φ^{t−1}_i = −Σ_j Q^t_ij γ^t_j, where `columns` are −γ^t.
  PooledVector<T> rows_before(Index t, const WeightAdjoint<T>& adjoint, const Numbers& columns) {
    Numbers sums;
    RowDots<T> dots(columns, sums);
    show(t, Order::row_panels, dots);
    PooledVector<T> rows = narrow<T>(sums);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= adjoint.factor[i];
    return rows;
  }

  Numbers column_sums(Index t, const WeightAdjoint<T>& adjoint) {
    Numbers sums;
    ColumnAdjoints<T> columns(products_, static_cast<T>(adjoint.coefficient), adjoint.row, sums);
    show(t, Order::column_panels, columns);
    return sums;
  }

  // Shows P^t to one observer.
  void show(Index t, Order order, Observer<T>& observer) {
    Pass<T> pass;
    pass.scores = forward_.scores;
    pass.order = order;
    pass.components = {Component{1, unrolled_.rows[static_cast<std::size_t>(t - 1)],
                                 unrolled_.cols[static_cast<std::size_t>(t - 1)]}};
    pass.observers = {&observer};
    run(pass, threads_);
  }

  const Forward<T>& forward_;
  const TileProduct<T>& products_;
  int threads_;
  UnrolledPotentials unrolled_;
};

}  // namespace

template <class T>
PooledVector<WeightAdjoint<T>> unrolled_adjoints(const Forward<T>& forward,
                                                 const TileProduct<T>& products, int threads) {
  return UnrolledAdjoints<T>(forward, products, threads).make();
}

template PooledVector<WeightAdjoint<float>> unrolled_adjoints(const Forward<float>&,
                                                              const TileProduct<float>&, int);
template PooledVector<WeightAdjoint<double>> unrolled_adjoints(const Forward<double>&,
                                                               const TileProduct<double>&, int);

}  // namespace attn
