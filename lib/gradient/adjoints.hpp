#pragma once

#include <span>

#include "gradient/gradient.hpp"
#include "pass/potentials.hpp"
#include "score/tile_product.hpp"
#include "tensor/pooled_vector.hpp"

/// The parts from which schemes make their adjoints.
namespace attn {

/// Whether δ is computed from the products that it is subtracted from, which costs two products
/// more than δ of the output. In small problems, all rows may have one dominant weight; rounding of
/// δ must not hide the small gradient of such a row.
inline bool is_small(Index rows, Index cols) { return rows * cols <= Index{1} << 16; }
template <class T>
bool is_small(const Scores<T>& scores) {
  return is_small(scores.rows(), scores.cols());
}

/// The adjoint of weights whose rows sum to 1 and whose columns are not normalised, P_ij =
/// exp((s_ij − g_j) − f_i): dS_ij = coefficient·P_ij (G_ij − delta_i).
template <class T>
WeightAdjoint<T> row_adjoint(const PooledVector<double>& f, const PooledVector<double>& g,
                             double coefficient, const PooledVector<double>& delta);

/// The same with g_j = LSE_i s_ij, as in dnas; the columns are open. ξ_ij = P_ij exp(f_i), where
/// exp(f_i) = Σ_j ξ_ij <= Lk.
template <class T>
WeightAdjoint<T> row_and_column_adjoint(const PooledVector<double>& f,
                                        const PooledVector<double>& g, double coefficient,
                                        const PooledVector<double>& delta);

/// δ_i of a scheme's only set of weights: ⟨dO_i, o_i⟩, or mean_products if the problem is small. An
/// empty g means zeros.
template <class T>
PooledVector<double> delta_of(const Forward<T>& forward, const TileProduct<T>& products,
                              const PooledVector<double>& f, const PooledVector<double>& g,
                              int threads);

/// The weights P_ij = exp((s_ij − g_j) − f_i). An empty g means zeros.
struct WeightSet {
  std::span<const double> f;
  std::span<const double> g;
};

/// δ_i = Σ_j P_ij G_ij / Σ_j P_ij of each set, in one pass; a sink counts in the divisor.
template <class T>
PooledVector<PooledVector<double>> mean_products(const Forward<T>& forward,
                                                 const TileProduct<T>& products,
                                                 const PooledVector<WeightSet>& sets, int threads);

/// ⟨a_i, b_i⟩ of every row i, summed in float64.
template <class T>
PooledVector<double> inner_products(MatrixView<const T> a, MatrixView<const T> b);

/// G of one tile, in `storage`: `products`, unless `forward` has a G of its own.
template <class T>
MatrixView<const T> tile_products(const Forward<T>& forward, const TileProduct<T>& products,
                                  const TileRange& range, Buffer<T>& storage) {
  storage.reserve(range.rows * range.cols);
  const MatrixView<T> tile(storage.data(), range.rows, range.cols);
  forward.products != nullptr ? forward.products->read(range, tile) : products.fill(range, tile);
  return tile;
}

/// exp(f_i − before_i − log_b), the factor that turns a row of P into one of Q = exp((s − g) −
/// before)/b; 0 for a masked row. An empty `before` means zeros.
template <class T>
PooledVector<T> row_factors(const PooledVector<double>& f, const PooledVector<double>& before,
                            double log_b);

/// factor·values in T.
template <class T>
PooledVector<T> narrow(const PooledVector<double>& values, double factor = 1) {
  PooledVector<T> narrowed;
  narrowed.reserve(values.size());
  for (const double value : values) narrowed.push_back(static_cast<T>(factor * value));
  return narrowed;
}

}  // namespace attn
