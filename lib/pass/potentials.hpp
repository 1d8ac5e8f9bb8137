#pragma once

#include <span>

#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The vectors that rebuild the weights: π_ij = exp((s_ij − g_j) − f_i), or for hnas a mixture of
/// two such terms. −inf for a query or key with nothing allowed.
struct Potentials {
  PooledVector<double> row;       ///< f (Lq); for hnas the f of dnas
  PooledVector<double> col;       ///< g (Lk); for unas zeros, but −inf for a key with no query
  PooledVector<double> unas_row;  ///< hnas only: f of unas (Lq)
};

/// The potential in the form in which it is subtracted: +inf in place of −inf. All scores of a
/// masked line then become −inf; −inf − (−inf) would be NaN.
PooledVector<double> to_subtract(std::span<const double> potential);

/// The two terms of hnas: hybrid · exp((s − g) − f) + (1 − hybrid) · exp(s − f_unas).
PooledVector<Component> hybrid_components(double hybrid, std::span<double> row,
                                          std::span<double> col, std::span<double> unas_row);

/// Shows the weights of known potentials to `observers`: exp((s − g) − f), for hnas (unas_row not
/// empty) the mixture with weight `hybrid`. Throws whatever the scores and observers throw.
template <class T>
void show_weights(const Scores<T>& scores, Potentials& potentials, double hybrid,
                  const ObserverList<T>& observers, int threads);

}  // namespace attn
