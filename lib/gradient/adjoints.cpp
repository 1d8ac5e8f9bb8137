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

template <class T>
struct MeanScratch {
  Buffer<T> scores;
  Buffer<T> weights;
  Buffer<T> products;  // G
  typename Scores<T>::Scratch scratch;
};

// One set of weights, and the sums over its rows.
struct RowMeans {
  Numbers f;
  Numbers g;
  Numbers means;
  Numbers masses;

  RowMeans(const WeightSet& set, const Partition& partition, double sink)
      : f(to_subtract(set.f)),
        g(to_subtract(set.g)),
        means(static_cast<std::size_t>(partition.rows), 0.0) {
    if (g.empty()) g.assign(static_cast<std::size_t>(partition.cols), 0.0);
    masses.reserve(set.f.size());
    for (const double potential : set.f) masses.push_back(sink_weight(sink, potential));
  }

  template <class T>
  void add(const TileRange& tile, MatrixView<const T> scores, MatrixView<const T> products,
           MatrixView<T> weights) {
    for (Index i = 0; i < tile.rows; ++i) {
      const auto at = static_cast<std::size_t>(tile.row0 + i);
      T* const row = weights.row(i);
      kernel::exp_row(row, scores.row(i), tile.cols, g.data() + tile.col0, f[at]);
      means[at] += kernel::weighted_sum(row, products.row(i), tile.cols);
      masses[at] += kernel::dot_row(row, nullptr, tile.cols);
    }
  }

  void hand_over(const SlotShare& share) {
    share.complete_lines(std::span<double>(means));
    share.complete_lines(std::span<double>(masses));
  }

  void finish() {
    for (std::size_t i = 0; i < means.size(); ++i) {
      if (masses[i] > 0) means[i] /= masses[i];
    }
  }
};

template <class T>
class MeanProducts {
 public:
  MeanProducts(const Forward<T>& forward, const TileProduct<T>& products,
               const PooledVector<WeightSet>& sets)
      : forward_(forward),
        scores_(*forward.scores),
        products_(products),
        partition_(partition_of(Order::row_panels, scores_.rows(), scores_.cols(), sizeof(T))) {
    for (const WeightSet& set : sets) sets_.emplace_back(set, partition_, forward.options.sink);
  }

  PooledVector<Numbers> run(int threads) {
    const SlotShare share(partition_);
    auto workspaces = workspaces_for<MeanScratch<T>>(threads);
    for_each_panel(share, threads, nullptr, workspaces,
                   [&](Index panel, Index, MeanScratch<T>& workspace) {
                     const RowRange lines = partition_.lines(panel);
                     for (Index col = 0; col < partition_.cols; col += pass_tile_length) {
                       add({lines.first, lines.last - lines.first, col,
                            std::min(pass_tile_length, partition_.cols - col)},
                           workspace);
                     }
                   });
    for (RowMeans& set : sets_) set.hand_over(share);
    PooledVector<Numbers> means;
    for (RowMeans& set : sets_) {
      set.finish();
      means.push_back(std::move(set.means));
    }
    return means;
  }

 private:
  void add(const TileRange& tile, MeanScratch<T>& workspace) {
    if (scores_.empty(tile)) return;
    workspace.scores.reserve(tile.rows * tile.cols);
    workspace.weights.reserve(tile.rows * tile.cols);
    const MatrixView<T> scores(workspace.scores.data(), tile.rows, tile.cols);
    const MatrixView<T> weights(workspace.weights.data(), tile.rows, tile.cols);
    scores_.fill(tile, scores, workspace.scratch);
    const auto products = tile_products(forward_, products_, tile, workspace.products);
    for (RowMeans& set : sets_) set.add<T>(tile, scores, products, weights);
  }

  const Forward<T>& forward_;
  const Scores<T>& scores_;
  const TileProduct<T>& products_;
  Partition partition_;
  PooledVector<RowMeans> sets_;  // rows belong to one slot each
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
  if (!is_small(*forward.scores)) return inner_products(forward.grad_out, forward.out);
  return std::move(mean_products(forward, products, {{f, g}}, threads).front());
}

template <class T>
PooledVector<Numbers> mean_products(const Forward<T>& forward, const TileProduct<T>& products,
                                    const PooledVector<WeightSet>& sets, int threads) {
  return MeanProducts<T>(forward, products, sets).run(threads);
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

#define ATTN_FOR_TYPE(T)                                                                         \
  template WeightAdjoint<T> row_adjoint(const Numbers&, const Numbers&, double, const Numbers&); \
  template WeightAdjoint<T> row_and_column_adjoint(const Numbers&, const Numbers&, double,       \
                                                   const Numbers&);                              \
  template Numbers delta_of(const Forward<T>&, const TileProduct<T>&, const Numbers&,            \
                            const Numbers&, int);                                                \
  template PooledVector<Numbers> mean_products(const Forward<T>&, const TileProduct<T>&,         \
                                               const PooledVector<WeightSet>&, int);             \
  template Numbers inner_products(MatrixView<const T>, MatrixView<const T>);                     \
  template PooledVector<T> row_factors(const Numbers&, const Numbers&, double);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
