#pragma once

#include <cstdint>

#include "gradient/gradient.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The gradients of a scheme's own numbers.
struct NumberGradients {
  double hybrid = 0;  ///< du = Σ_ij G_ij (π_dnas − π_unas)_ij without cancellation, if requested
  double sink = 0;
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
///   transport  see scheme/transport_rows.hpp
///
/// The gradient of a preference u_ij of fenchel is exp(s_ij − log u_ij − f_i) (G_ij − δ_i), which
/// also holds where u_ij = 0; it takes another pass. Queries whose preferences are all 0 have
/// gradients of 0.
///
/// unas and dnas take one pass of five products. hnas adds a pass of two products, sinkhorn 4T
/// passes of one, and small problems one or two passes of two, for δ. Queries and keys without an
/// allowed pair have gradient 0. A sink takes part in the sums f only. dS then has the same
/// formulas, and dsink = −Σ_i w_i δ_i with the sink's weights w_i, for hnas summed over both parts.
/// Bits do not depend on the number of threads. Results beyond the format are NaN or infinite,
/// never hidden. Throws whatever the scores throw.
template <class T>
NumberGradients differentiate(const Forward<T>& forward, const GradientTargets<T>& targets,
                              int threads);

/// dsink = Σ_i exp(sink − f_i) row_i over the adjoints, in their order, with row_i =
/// −coefficient·δ_i: exp(sink − f_i) are the weights of the sink.
template <class T>
double sink_gradient(double sink, const PooledVector<WeightAdjoint<T>>& adjoints);

/// Bytes of scratch memory that differentiate takes, without sinks, for at most
/// options.stopping.most_iterations() of sinkhorn.
std::int64_t differentiate_bytes(const SchemeOptions& options, const GradientSizes& sizes);

}  // namespace attn
