#include "gradient/unrolled_adjoints.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernel/gradient.hpp"
#include "tensor/infinity.hpp"
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
  ColumnAdjoints(const Forward<T>& forward, const TileProduct<T>& products, T coefficient,
                 const PooledVector<T>& row, Numbers& x)
      : forward_(forward), all_products_(products), coefficient_(coefficient), row_(row), x_(x) {}

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
      adjoint.g =
          tile_products(forward_, all_products_, range, products_[static_cast<std::size_t>(slot)]);
    }
    kernel::add_adjoint_columns(tile.weights, adjoint, x_.data() + range.col0);
  }
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override { share.complete_lines(std::span<double>(x_)); }
  void finish() override { products_.clear(); }

 private:
  const Forward<T>& forward_;
  const TileProduct<T>& all_products_;
  T coefficient_;
  const PooledVector<T>& row_;
  Numbers& x_;
  PooledVector<Buffer<T>> products_;
};

template <class T>
class UnrolledAdjoints {
 public:
  UnrolledAdjoints(const Forward<T>& forward, const TileProduct<T>& products,
                   const UnrolledIterations& iterations, int threads)
      : forward_(forward),
        scores_(*forward.scores),
        products_(products),
        iterations_(iterations),
        log_b_(first_log_b(iterations.log_b)),
        threads_(threads) {
    run_forward();
  }

  PooledVector<WeightAdjoint<T>> make(const LastIteration& of) {
    PooledVector<WeightAdjoint<T>> adjoints;
    WeightAdjoint<T> last = iteration(iterations_.count);
    last.coefficient = 1;
    last.row = narrow<T>(of.row);
    if (iterations_.count > 1 || !of.may_open) {
      Numbers columns = column_sums(iterations_.count, last);
      for (std::size_t j = 0; j < of.col.size(); ++j) columns[j] -= of.col[j];
      set_columns(columns, last);
      for (Index t = iterations_.count - 1; t >= 1; --t) {
        const WeightAdjoint<T>& later = adjoints.empty() ? last : adjoints.back();
        WeightAdjoint<T> earlier = iteration(t);
        earlier.row = rows_before(t + 1, later, columns);
        columns = column_sums(t, earlier);
        set_columns(columns, earlier);
        adjoints.push_back(std::move(earlier));
      }
    }
    adjoints.insert(adjoints.begin(), std::move(last));
    return adjoints;
  }

 private:
  // f⁰; empty if it is 0 in all rows.
  Numbers first_rows() const {
    Numbers rows;
    const auto is_closed = [](double log) { return log == minus_infinity; };
    const auto& log_a = iterations_.log_a;
    if (std::none_of(log_a.begin(), log_a.end(), is_closed)) return rows;
    for (const double log : log_a) rows.push_back(is_closed(log) ? minus_infinity : 0);
    return rows;
  }

  void run_forward() {
    rows_.push_back(first_rows());
    cols_.emplace_back();
    for (Index t = 1; t <= iterations_.count; ++t) {
      rows_.emplace_back(static_cast<std::size_t>(scores_.rows()));
      cols_.emplace_back(static_cast<std::size_t>(scores_.cols()));
      Pass<T> pass;
      pass.scores = &scores_;
      pass.order = Order::column_panels;
      pass.completes = Completes::columns;
      pass.log_marginal = iterations_.log_b;
      pass.components = {Component{1, row_potential(t - 1), col_potential(t)}};
      run(pass, threads_);
      pass.order = Order::row_panels;
      pass.completes = Completes::rows;
      pass.log_marginal = iterations_.log_a;
      pass.components = {Component{1, row_potential(t), col_potential(t)}};
      run(pass, threads_);
    }
  }

  Numbers& row_potential(Index t) { return rows_[static_cast<std::size_t>(t)]; }
  Numbers& col_potential(Index t) { return cols_[static_cast<std::size_t>(t)]; }

  WeightAdjoint<T> iteration(Index t) {
    WeightAdjoint<T> adjoint;
    adjoint.f = to_subtract(row_potential(t));
    adjoint.g = to_subtract(col_potential(t));
    adjoint.factor = row_factors<T>(row_potential(t), row_potential(t - 1), log_b_);
    // A row with hardly any weight: 0 times infinity would be NaN.
    constexpr T most = std::numeric_limits<T>::max();
    for (T& factor : adjoint.factor) factor = std::min(factor, most);
    return adjoint;
  }

  // Of `columns`, −γᵗ. Makes them relative to the marginals.
  void set_columns(Numbers& columns, WeightAdjoint<T>& adjoint) const {
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const double log_b = iterations_.log_b[j];
      columns[j] = log_b == minus_infinity ? 0 : columns[j] / std::exp(log_b - log_b_);
    }
    adjoint.col = narrow<T>(columns, -1);
  }

  // φ^{t−1}_i/a_i, where φ^{t−1}_i = −Σ_j Q^t_ij γ^t_j and `columns` are −γ^t/b.
  PooledVector<T> rows_before(Index t, const WeightAdjoint<T>& adjoint, const Numbers& columns) {
    Numbers sums;
    RowDots<T> dots(columns, sums);
    show(t, Order::row_panels, dots);
    PooledVector<T> rows = narrow<T>(sums);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= adjoint.factor[i];
    for (std::size_t i = 0; i < iterations_.log_a.size(); ++i) {
      const double log_a = iterations_.log_a[i];
      rows[i] = log_a == minus_infinity
                    ? T{0}
                    : static_cast<T>(static_cast<double>(rows[i]) / std::exp(log_a));
    }
    return rows;
  }

  Numbers column_sums(Index t, const WeightAdjoint<T>& adjoint) {
    Numbers sums;
    ColumnAdjoints<T> columns(forward_, products_, static_cast<T>(adjoint.coefficient), adjoint.row,
                              sums);
    show(t, Order::column_panels, columns);
    return sums;
  }

  // Shows P^t to one observer.
  void show(Index t, Order order, Observer<T>& observer) {
    Pass<T> pass;
    pass.scores = &scores_;
    pass.order = order;
    pass.components = {Component{1, row_potential(t), col_potential(t)}};
    pass.observers = {&observer};
    run(pass, threads_);
  }

  const Forward<T>& forward_;
  const Scores<T>& scores_;
  const TileProduct<T>& products_;
  UnrolledIterations iterations_;
  double log_b_;
  int threads_;
  PooledVector<Numbers> rows_;  // fᵗ, t = 0 first
  PooledVector<Numbers> cols_;  // gᵗ; none of t = 0
};

}  // namespace

double first_log_b(std::span<const double> log_b) {
  for (const double log : log_b) {
    if (log != minus_infinity) return log;
  }
  return 0;
}

template <class T>
PooledVector<WeightAdjoint<T>> unrolled_adjoints(const Forward<T>& forward,
                                                 const TileProduct<T>& products,
                                                 const UnrolledIterations& iterations,
                                                 const LastIteration& last, int threads) {
  return UnrolledAdjoints<T>(forward, products, iterations, threads).make(last);
}

std::int64_t unrolled_bytes(const GradientSizes& sizes, Index iterations, bool may_open) {
  const bool open = iterations == 1 && may_open;
  return differentiate_weights_bytes(sizes, {open, iterations > 1, 2 * iterations}) +
         adjoint_pass_bytes(sizes);
}

template PooledVector<WeightAdjoint<float>> unrolled_adjoints(const Forward<float>&,
                                                              const TileProduct<float>&,
                                                              const UnrolledIterations&,
                                                              const LastIteration&, int);
template PooledVector<WeightAdjoint<double>> unrolled_adjoints(const Forward<double>&,
                                                               const TileProduct<double>&,
                                                               const UnrolledIterations&,
                                                               const LastIteration&, int);

}  // namespace attn
