#pragma once

#include <cstdint>
#include <span>

#include "gradient/adjoints.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Sinkhorn's iterations gᵗ_j = LSE_i(s_ij − fᵗ⁻¹_i) − log b_j, fᵗ_i = LSE_j(s_ij − gᵗ_j) − log a_i
/// from f⁰ = 0 (−inf for a closed row). A log of −inf closes a line.
struct UnrolledIterations {
  Index count = 1;
  std::span<const double> log_a;  ///< (Lq); empty: all 0
  std::span<const double> log_b;  ///< (Lk)
};

/// How a number L depends on the last iteration, besides the products G = ∂L/∂π.
struct LastIteration {
  PooledVector<double> row;  ///< φ_i/a_i = (∂L/∂f_i − Σ_j π_ij G_ij)/a_i, 0 for a closed row
  std::span<const double> col;  ///< ∂L/∂g_j; empty: 0
  /// Whether the adjoint of the only iteration may be left open (WeightAdjoint).
  bool may_open = false;
};

/// The adjoints of the unrolled iterations (MATHEMATICS.md §2): first of the last iteration, which
/// makes the weights, then of the others, from the last but one to the first. The potentials of all
/// iterations are computed anew, by half-steps in logarithms.
template <class T>
PooledVector<WeightAdjoint<T>> unrolled_adjoints(const Forward<T>& forward,
                                                 const TileProduct<T>& products,
                                                 const UnrolledIterations& iterations,
                                                 const LastIteration& last, int threads);

/// The first open column's log b, which the factors of the adjoints contain: the adjoint of
/// column j over b_j is col_j exp(−first_log_b). 0 if all are closed.
double first_log_b(std::span<const double> log_b);

/// Bytes of these adjoints, and of making them and of differentiate_weights with them.
std::int64_t unrolled_bytes(const GradientSizes& sizes, Index iterations, bool may_open);

}  // namespace attn
