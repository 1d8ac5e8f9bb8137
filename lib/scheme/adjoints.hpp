#pragma once

#include <vector>

#include "scheme/gradient.hpp"
#include "score/tile_product.hpp"

namespace attn {

/// One set of weights of which a gradient is made, P_ij = exp((s_ij − g_j) − f_i), and what they
/// are multiplied with:
///
///   dS_ij += P_ij (coefficient·G_ij + row_i + factor_i·col_j)
///
/// Potentials of −inf are +inf here, which closes their lines. P with a coefficient ≠ 0 is part of
/// the weights π = Σ coefficient·P that the output was made with.
template <class T>
struct WeightAdjoint {
  std::vector<double> f;  ///< (Lq)
  std::vector<double> g;  ///< (Lk)
  double coefficient = 0;
  std::vector<T> row;     ///< (Lq)
  std::vector<T> factor;  ///< (Lq); empty: there is no third term
  std::vector<T> col;  ///< (Lk); empty with a factor: col_j = −Σ_i P_ij (coefficient·G_ij + row_i)

  /// Its columns are left open: they follow from its own weights, a panel of columns at a time.
  bool open() const { return !factor.empty() && col.empty(); }
};

/// Those of the scheme, made with `products` G; O(L) numbers each; one at most is open, and comes
/// first. hnas has dnas' and unas'.
template <class T>
std::vector<WeightAdjoint<T>> weight_adjoints(const Forward<T>& forward,
                                              const TileProduct<T>& products, int threads);

}  // namespace attn
