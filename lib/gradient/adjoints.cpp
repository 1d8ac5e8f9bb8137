#include "gradient/adjoints.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/gradient.hpp"
#include "kernel/tile.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

// δ_i = Σ_j P_ij G_ij / Σ_j P_ij, from row panels; a sink adds its weight to the divisor.
template <class T>
class MeanProducts final : public Observer<T> {
 public:
  MeanProducts(const TileProduct<T>& products, const Numbers& f, double sink, Numbers& means)
      : all_products_(products), means_(means) {
    for (const double potential : f) masses_.push_back(sink_weight(sink, potential));
  }

  void start(const Partition& partition) override {
    means_.assign(static_cast<std::size_t>(partition.rows), 0.0);
    products_.resize(static_cast<std::size_t>(partition.slots));
  }
  void observe(const WeightTile<T>& tile, Index slot) override {
    const auto products =
        tile_products(all_products_, tile.range, products_[static_cast<std::size_t>(slot)]);
    for (Index i = 0; i < tile.range.rows; ++i) {
      const auto at = static_cast<std::size_t>(tile.range.row0 + i);
      const T* const weights = tile.weights.row(i);
      means_[at] += kernel::weighted_sum(weights, products.row(i), tile.range.cols);
      masses_[at] += kernel::dot_row(weights, nullptr, tile.range.cols);
    }
  }
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override {
    share.complete_lines(std::span<double>(means_));
    share.complete_lines(std::span<double>(masses_));
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

}  // namespace

template <class T>
WeightAdjoint<T> row_adjoint(const Numbers& f, const Numbers& g, double coefficient,
                             const Numbers& delta) {
  WeightAdjoint<T> adjoint;
  adjoint.f = to_subtract(f);
  adjoint.g = to_subtract(g);
  adjoint.coefficient = coefficient;
  adjoint.row = narrow<T>(delta, -coefficient);
  return adjoint;
}

template <class T>
WeightAdjoint<T> row_and_column_adjoint(const Numbers& f, const Numbers& g, double coefficient,
                                        const Numbers& delta) {
  WeightAdjoint<T> adjoint = row_adjoint<T>(f, g, coefficient, delta);
  adjoint.factor = row_factors<T>(f, {}, 0);
  return adjoint;
}

template <class T>
Numbers delta_of(const Forward<T>& forward, const TileProduct<T>& products, const Numbers& f,
                 const Numbers& g, int threads) {
  return is_small(*forward.scores) ? mean_products(forward, products, f, g, threads)
                                   : inner_products(forward.grad_out, forward.out);
}

template <class T>
Numbers mean_products(const Forward<T>& forward, const TileProduct<T>& products, Numbers f,
                      Numbers g, int threads) {
  Numbers means;
  MeanProducts<T> observer(products, f, forward.options.sink, means);
  Pass<T> pass;
  pass.scores = forward.scores;
  pass.components = {Component{1, f, g}};
  pass.observers = {&observer};
  run(pass, threads);
  return means;
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
PooledVector<T> row_factors(const Numbers& f, const Numbers& before, double log_b) {
  PooledVector<T> factors(f.size());
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double from = before.empty() ? 0.0 : before[i];
    factors[i] = f[i] == minus_infinity ? T{0} : static_cast<T>(std::exp(f[i] - from - log_b));
  }
  return factors;
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template WeightAdjoint<T> row_adjoint(const Numbers&, const Numbers&, double, const Numbers&);   \
  template WeightAdjoint<T> row_and_column_adjoint(const Numbers&, const Numbers&, double,         \
                                                   const Numbers&);                                \
  template Numbers delta_of(const Forward<T>&, const TileProduct<T>&, const Numbers&,              \
                            const Numbers&, int);                                                  \
  template Numbers mean_products(const Forward<T>&, const TileProduct<T>&, Numbers, Numbers, int); \
  template Numbers inner_products(MatrixView<const T>, MatrixView<const T>);                       \
  template PooledVector<T> row_factors(const Numbers&, const Numbers&, double);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
