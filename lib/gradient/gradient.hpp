#pragma once

#include <cstdint>

#include "gradient/gradient_sink.hpp"
#include "scheme/scheme.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Forward results and the upstream gradient.
template <class T>
struct Forward {
  const Scores<T>* scores = nullptr;
  SchemeOptions options;
  const Attention* attention = nullptr;  ///< the result of attend(scores, options)
  MatrixView<const T> v;                 ///< (Lk, dv)
  MatrixView<const T> out;               ///< (Lq, dv): Σ_j π_ij v_j
  MatrixView<const T> grad_out;          ///< dO (Lq, dv), finite
};

/// Where gradients go. A gradient whose matrix has no data is not computed and costs nothing.
template <class T>
struct GradientTargets {
  MatrixView<T> v;                          ///< dV = πᵀ dO (Lk, dv), contiguous
  PooledVector<GradientSink<T>*> scores;    ///< receive dS: the biases
  PooledVector<GradientSink<T>*> energies;  ///< receive dE, dS times the slope of the soft cap
  bool hybrid = false;                      ///< whether to return du of hnas
};

/// Backward through a scheme, exact and in O(L·d) memory: tiles of scores, weights and dS are made,
/// used and dropped. With G_ij = ⟨dO_i, v_j⟩ and δ_i = ⟨dO_i, o_i⟩ (MATHEMATICS.md §2):
///
///   unas   dS = π (G − δ)
///   dnas   dS = π (G − δ) − ξ κ, ξ_ij = exp(s_ij − g_j), κ_j = Σ_i π_ij (G_ij − δ_i)
///   hnas   u·dS_dnas + (1−u)·dS_unas, each with the δ of its own output
///   sinkhorn  the T iterations of attend, unrolled (a and b are constants): π (G − δ), plus
///             Σ_t Q^t_ij γ^t_j + Σ_{t<T} P^t_ij φ^t_i with the row-stochastic
///             P^t = exp((s − gᵗ) − fᵗ) and the column-stochastic Q^t = exp((s − gᵗ) − fᵗ⁻¹)/b,
///             γ^T_j = −κ_j, then φ^{t−1}_i = −Σ_j Q^t_ij γ^t_j, γ^t_j = −Σ_i P^t_ij φ^t_i. The
///             potentials of all half-steps are computed again: T·(Lq + Lk) numbers.
///
/// unas and dnas take one pass of five products; hnas adds a pass of two, sinkhorn 4T of one, and
/// small problems one or two of two, for δ.
/// Queries and keys without an allowed pair have gradient 0. Returns du = Σ_ij G_ij (π_dnas −
/// π_unas)_ij, computed without cancellation of weights, if it is requested, else 0. Bits do not
/// depend on the number of threads. Results beyond the format are NaN or infinite, never hidden.
/// Throws whatever the scores throw.
template <class T>
double differentiate(const Forward<T>& forward, const GradientTargets<T>& targets, int threads);

/// The number of lanes on which sinks see tiles (GradientSink) with `threads` threads.
Index gradient_lanes(Index cols, int threads);

/// Bytes of scratch memory that differentiate takes, without sinks, for at most `iterations` of
/// sinkhorn.
std::int64_t differentiate_bytes(Scheme scheme, Index rows, Index cols, Index v_head_dim,
                                 Index iterations, std::size_t element_size, int threads);

}  // namespace attn
