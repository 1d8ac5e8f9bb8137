#pragma once

#include "gradient/gradient.hpp"
#include "score/tile_product.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// One set of weights, P_ij = exp((s_ij − g_j) − f_i), and its part of the scores' gradient:
///
///   dS_ij += P_ij (coefficient·G_ij + row_i + factor_i·col_j)
///
/// Potentials of −inf are +inf here, which masks their lines. A P with a coefficient ≠ 0 is part of
/// the weights π = Σ coefficient·P that made the output.
template <class T>
struct WeightAdjoint {
  PooledVector<double> f;  ///< (Lq); empty, as g then is, if fold_rows has left only exp(s_ij)
  PooledVector<double> g;  ///< (Lk)
  double coefficient = 0;
  PooledVector<T> row;     ///< (Lq)
  PooledVector<T> factor;  ///< (Lq); empty: there is no third term
  PooledVector<T> col;  ///< (Lk); empty with a factor: col_j = −Σ_i P_ij (coefficient·G_ij + row_i)

  /// Whether its columns are still open: they follow from its own weights, one panel of columns at
  /// a time.
  bool open() const { return !factor.empty() && col.empty(); }
};

/// Whether δ is computed from the very products that it is subtracted from. In small problems all
/// rows may have one weight next to which the others vanish, and such a row must keep nothing but
/// its true gradient. It costs two products more than δ of the output.
template <class T>
bool is_small(const Scores<T>& scores) {
  return scores.rows() * scores.cols() <= Index{1} << 16;
}

/// The adjoints of the scheme, made with `products` G; O(L) numbers each. At most one is open, and
/// it comes first. hnas has those of dnas and unas.
template <class T>
PooledVector<WeightAdjoint<T>> weight_adjoints(const Forward<T>& forward,
                                               const TileProduct<T>& products, int threads);

}  // namespace attn
