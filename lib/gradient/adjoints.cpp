#include "gradient/adjoints.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/gradient.hpp"
#include "pass/output.hpp"
#include "sinkhorn/attention_iterations.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();

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

 private:
  const Numbers& y_;
  Numbers& x_;
};

// G of one tile.
template <class T>
MatrixView<const T> tile_products(const TileProduct<T>& products, const TileRange& range,
                                  Buffer<T>& storage) {
  storage.reserve(range.rows * range.cols);
  const MatrixView<T> tile(storage.data(), range.rows, range.cols);
  products.fill(range, tile);
  return tile;
}

// δ_i = Σ_j P_ij G_ij / Σ_j P_ij, from row panels.
template <class T>
class MeanProducts final : public Observer<T> {
 public:
  MeanProducts(const TileProduct<T>& products, Numbers& means)
      : all_products_(products), means_(means) {}

  void start(const Partition& partition) override {
    means_.assign(static_cast<std::size_t>(partition.rows), 0.0);
    masses_ = means_;
    products_.resize(static_cast<std::size_t>(partition.slots));
  }
  void observe(const WeightTile<T>& tile, Index slot) override {
    const auto products =
        tile_products(all_products_, tile.range, products_[static_cast<std::size_t>(slot)]);
    for (Index i = 0; i < tile.range.rows; ++i) {
      const auto at = static_cast<std::size_t>(tile.range.row0 + i);
      for (Index j = 0; j < tile.range.cols; ++j) {
        const auto weight = static_cast<double>(tile.weights(i, j));
        means_[at] += weight * static_cast<double>(products(i, j));
        masses_[at] += weight;
      }
    }
  }
  void finish() override {
    for (std::size_t i = 0; i < means_.size(); ++i) {
      if (masses_[i] > 0) means_[i] /= masses_[i];
    }
    products_.clear();
  }

 private:
  const TileProduct<T>& all_products_;
  Numbers& means_;
  Numbers masses_;
  PooledVector<Buffer<T>> products_;
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
  void finish() override { products_.clear(); }

 private:
  const TileProduct<T>& all_products_;
  T coefficient_;
  const PooledVector<T>& row_;
  Numbers& x_;
  PooledVector<Buffer<T>> products_;
};

template <class T>
PooledVector<T> narrow(const Numbers& values, double factor = 1) {
  PooledVector<T> narrowed;
  narrowed.reserve(values.size());
  for (const double value : values) narrowed.push_back(static_cast<T>(factor * value));
  return narrowed;
}

// A potential of −inf masks its line, and so does subtracting +inf.
Numbers to_subtract(Numbers potential) {
  std::replace(potential.begin(), potential.end(), -infinity, infinity);
  return potential;
}

// exp(f_i − before_i − log_b), the factor that turns P^t into Q^t; 0 for a masked row. An empty
// `before` means zeros.
template <class T>
PooledVector<T> row_factors(const Numbers& f, const Numbers& before, double log_b) {
  PooledVector<T> factors(f.size());
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double from = before.empty() ? 0.0 : before[i];
    factors[i] = f[i] == -infinity ? T{0} : static_cast<T>(std::exp(f[i] - from - log_b));
  }
  return factors;
}

template <class T>
Numbers inner_products(MatrixView<const T> a, MatrixView<const T> b) {
  Numbers products(static_cast<std::size_t>(a.rows));
  for (Index i = 0; i < a.rows; ++i) {
    double sum = 0;
    for (Index c = 0; c < a.cols; ++c) {
      sum += static_cast<double>(a(i, c)) * static_cast<double>(b(i, c));
    }
    products[static_cast<std::size_t>(i)] = sum;
  }
  return products;
}

template <class T>
class Builder {
 public:
  Builder(const Forward<T>& forward, const TileProduct<T>& products, int threads)
      : forward_(forward),
        products_(products),
        threads_(threads),
        small_(is_small(*forward.scores)) {}

  PooledVector<WeightAdjoint<T>> build() {
    const Potentials& found = forward_.attention->potentials;
    switch (forward_.options.scheme) {
      case Scheme::unas:
      case Scheme::fenchel:
        return {unas(found.row, 1, delta_of(found.row, {}))};
      case Scheme::dnas:
        return {dnas(1, delta_of(found.row, found.col))};
      case Scheme::hnas:
        return hnas();
      case Scheme::sinkhorn:
        return sinkhorn(forward_.attention->summary.iterations);
    }
    return {};
  }

 private:
  WeightAdjoint<T> unas(const Numbers& f, double coefficient, const Numbers& delta) const {
    WeightAdjoint<T> adjoint;
    adjoint.f = to_subtract(f);
    adjoint.g.assign(static_cast<std::size_t>(forward_.scores->cols()), 0.0);
    adjoint.coefficient = coefficient;
    adjoint.row = narrow<T>(delta, -coefficient);
    return adjoint;
  }

  // ξ_ij = π_ij exp(f_i), where exp(f_i) = Σ_j ξ_ij <= Lk.
  WeightAdjoint<T> dnas(double coefficient, const Numbers& delta) const {
    const Potentials& found = forward_.attention->potentials;
    WeightAdjoint<T> adjoint = unas(found.row, coefficient, delta);
    adjoint.g = to_subtract(found.col);
    adjoint.factor = row_factors<T>(found.row, {}, 0);
    return adjoint;
  }

  // δ of the scheme's only set of weights.
  Numbers delta_of(const Numbers& f, const Numbers& g) const {
    return small_ ? mean_products(f, g) : inner_products(forward_.grad_out, forward_.out);
  }

  Numbers mean_products(Numbers f, Numbers g) const {
    Numbers means;
    MeanProducts<T> observer(products_, means);
    Pass<T> pass;
    pass.scores = forward_.scores;
    pass.components = {Component{1, f, g}};
    pass.observers = {&observer};
    run(pass, threads_);
    return means;
  }

  PooledVector<WeightAdjoint<T>> hnas() const {
    const Potentials& found = forward_.attention->potentials;
    const double u = forward_.options.hybrid;
    if (small_) {
      return {dnas(u, mean_products(found.row, found.col)),
              unas(found.unas_row, 1 - u, mean_products(found.unas_row, {}))};
    }
    // δ is the mixture of the two, so one of them yields the other, by a division by 1/2 or more.
    const bool dnas_is_made = u <= 0.5;
    Potentials made;
    made.row = dnas_is_made ? found.row : found.unas_row;
    made.col = dnas_is_made ? found.col : Numbers(found.col.size(), 0.0);
    Buffer<T> storage(forward_.out.rows * forward_.out.cols);
    const MatrixView<T> out(storage.data(), forward_.out.rows, forward_.out.cols);
    Output<T> output(forward_.v, out);
    show_weights<T>(*forward_.scores, made, 0, {&output}, threads_);
    Numbers of_dnas = inner_products<T>(forward_.grad_out, out);
    Numbers of_unas(of_dnas);
    const Numbers mixed = inner_products(forward_.grad_out, forward_.out);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      if (dnas_is_made) {
        of_unas[i] = (mixed[i] - u * of_dnas[i]) / (1 - u);
      } else {
        of_dnas[i] = (mixed[i] - (1 - u) * of_unas[i]) / u;
      }
    }
    return {dnas(u, of_dnas), unas(found.unas_row, 1 - u, of_unas)};
  }

  PooledVector<WeightAdjoint<T>> sinkhorn(Index iterations) {
    unrolled_ =
        unroll_attention(*forward_.scores, forward_.attention->allowed, iterations, threads_);
    PooledVector<WeightAdjoint<T>> adjoints;
    WeightAdjoint<T> last = iteration(iterations);
    last.coefficient = 1;
    const Potentials& found = forward_.attention->potentials;
    last.row = narrow<T>(delta_of(found.row, found.col), -1);
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
  bool small_;
  UnrolledPotentials unrolled_;  // of sinkhorn
};

}  // namespace

template <class T>
PooledVector<WeightAdjoint<T>> weight_adjoints(const Forward<T>& forward,
                                               const TileProduct<T>& products, int threads) {
  return Builder<T>(forward, products, threads).build();
}

template PooledVector<WeightAdjoint<float>> weight_adjoints(const Forward<float>&,
                                                            const TileProduct<float>&, int);
template PooledVector<WeightAdjoint<double>> weight_adjoints(const Forward<double>&,
                                                             const TileProduct<double>&, int);

}  // namespace attn
