#pragma once

#include <vector>

#include "gradient/gradient.hpp"
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
  std::vector<double> f;  ///< (Lq); empty, as g then is, where fold_rows has left exp(s_ij) alone
  std::vector<double> g;  ///< (Lk)
  double coefficient = 0;
  std::vector<T> row;     ///< (Lq)
  std::vector<T> factor;  ///< (Lq); empty: there is no third term
  std::vector<T> col;  ///< (Lk); empty with a factor: col_j = −Σ_i P_ij (coefficient·G_ij + row_i)

  /// Its columns are left open: they follow from its own weights, a panel of columns at a time.
  bool open() const { return !factor.empty() && col.empty(); }
};

/// Whether δ is taken of the very products that it is subtracted from: in small problems all rows
/// may have one weight next to which the others vanish, and nothing is left of such a row but what
/// is due. It costs two products more than to take δ of the output.
template <class T>
bool is_small(const Scores<T>& scores) {
  return scores.rows() * scores.cols() <= Index{1} << 16;
}

/// Those of the scheme, made with `products` G; O(L) numbers each; one at most is open, and comes
/// first. hnas has dnas' and unas'.
template <class T>
std::vector<WeightAdjoint<T>> weight_adjoints(const Forward<T>& forward,
                                              const TileProduct<T>& products, int threads);

}  // namespace attn
