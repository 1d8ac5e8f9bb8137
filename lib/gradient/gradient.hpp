#pragma once

#include <cstdint>

#include "gradient/gradient_sink.hpp"
#include "pass/attention.hpp"
#include "score/matrix_source.hpp"
#include "score/tile_product.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Forward results and the upstream gradient.
template <class T>
struct Forward {
  const Scores<T>* scores = nullptr;
  SchemeOptions options;
  const Attention* attention = nullptr;       ///< the result of attend(scores, options)
  MatrixView<const T> v;                      ///< (Lk, dv)
  MatrixView<const T> out;                    ///< (Lq, dv): Σ_j π_ij v_j
  MatrixView<const T> grad_out;               ///< dO (Lq, dv), finite
  WeightDropout dropout = {};                 ///< with which `out` was made
  const MatrixSource<T>* products = nullptr;  ///< G (Lq, Lk) itself; null: ⟨dO_i, v_j⟩
  bool folds = true;  ///< softmax: exp(−f_i) may be multiplied into dO_i, for rows of these scores
};

/// Where gradients go. A gradient whose matrix has no data is not computed and costs nothing.
template <class T>
struct GradientTargets {
  MatrixView<T> v;                             ///< dV = πᵀ dO (Lk, dv), contiguous
  PooledVector<GradientSink<T>*> scores;       ///< receive dS: the biases
  PooledVector<GradientSink<T>*> energies;     ///< receive dE, dS times the slope of the soft cap
  PooledVector<GradientSink<T>*> preferences;  ///< receive ∂L/∂u_ij, of the preferences
  MatrixView<T> cost;                          ///< ∂L/∂M (Lk, Lk) of the scheme transport
  bool hybrid = false;                         ///< whether to return du of a mixture
};

/// One set of weights, P_ij = exp((s_ij − g_j) − f_i), and its part of the scores' gradient:
///
///   dS_ij += P_ij (coefficient·G_ij + row_i + factor_i·col_j)
///
/// Potentials of −inf are stored as +inf, which masks their lines. The weights of the output are π
/// = Σ coefficient·P over the adjoints.
template <class T>
struct WeightAdjoint {
  PooledVector<double> f;  ///< (Lq); empty, like g, if fold_rows has left only exp(s_ij)
  PooledVector<double> g;  ///< (Lk)
  double coefficient = 0;
  PooledVector<T> row;     ///< (Lq)
  PooledVector<T> factor;  ///< (Lq); empty: there is no third term
  PooledVector<T> col;  ///< (Lk); empty with a factor: col_j = −Σ_i P_ij (coefficient·G_ij + row_i)

  /// Whether the columns are still open: they follow from the adjoint's own weights, one panel of
  /// columns at a time.
  bool open() const { return !factor.empty() && col.empty(); }
};

/// Backward through the weights of a forward step, exact and in O(L·d) memory: tiles of scores,
/// weights and dS are made, used and dropped. `products` are G_ij = ⟨dO_i, v_j⟩ of `forward`, whose
/// values are centred (CentredValues). dS is the sum over `adjoints`; at most one is open, which
/// comes first. Returns du = Σ_ij G_ij (P_1 − P_2)_ij of the first two adjoints, computed without
/// cancellation of weights, if `targets.hybrid` asks for it, else 0. Bits do not depend on the
/// number of threads. Throws whatever the scores throw.
template <class T>
double differentiate_weights(const Forward<T>& forward, const TileProduct<T>& products,
                             PooledVector<WeightAdjoint<T>> adjoints,
                             const GradientTargets<T>& targets, int threads);

/// The number of lanes on which sinks see tiles (GradientSink) with `threads` threads.
Index gradient_lanes(Index cols, int threads);

/// The sizes of a gradient.
struct GradientSizes {
  Index rows = 0;
  Index cols = 0;
  Index v_head_dim = 0;
  std::size_t element_size = sizeof(double);
  int threads = 1;
};

/// The needs of a scheme's adjoints in differentiate_weights.
struct AdjointNeeds {
  bool open = false;     ///< the first of them may be open
  bool several = false;  ///< there may be more than one
  Index sets = 3;        ///< sets of f, g, row, factor and col that are held at most
};

/// Bytes of scratch memory of CentredValues and differentiate_weights, without sinks.
std::int64_t differentiate_weights_bytes(const GradientSizes& sizes, const AdjointNeeds& needs);

/// Bytes of a pass over all weights by rows or columns, with G, from which adjoints are made.
std::int64_t adjoint_pass_bytes(const GradientSizes& sizes);

}  // namespace attn
