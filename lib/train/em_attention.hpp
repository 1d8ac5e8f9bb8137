#pragma once

#include <compare>
#include <cstdint>

#include "tensor/view.hpp"

namespace attn::train {

/// Expectation-maximisation as attention: how many steps, and whether they estimate variances.
struct EmScheme {
  Index iterations = 1;             ///< T >= 1
  bool estimates_variance = false;  ///< else all σ_i² stay 1

  auto operator<=>(const EmScheme&) const = default;
};

/// Variances are not estimated below this.
inline constexpr double least_variance = 1e-2;

/// Attention of queries that are the centres of a mixture of Gaussians, from which the keys are
/// taken to be drawn. Vectors are divided by d^(1/4), so that a product is a scaled one. At the
/// start σ_i² = 1 and β_i ∝ e^{½‖q_i‖²}. T times
///
///   ξ_ij ∝_i β_i N(k_j | q_i, σ_i² I),   π_ij = ξ_ij / Σ_j ξ_ij,
///   q_i ← Σ_j π_ij k_j,   σ_i² ← max(least_variance, Σ_j π_ij ‖k_j − q_i‖² / d) with the new q,
///   β_i ← mean_j ξ_ij,
///
/// and out_i = Σ_j π_ij v_j with the π of the last time, which is that of the centres before it. So
/// T = 1 is dnas. (MATHEMATICS.md §2; DN 2-8, EA 2-8)
///
/// For q (n, d), k (m, d), v (m, dv), out (n, dv); 0 without keys. All in float64 within. Writes
/// c_j = Σ_i π_ij of the last time to `column_sums` (m), unless that is null. Time O(T n m d),
/// memory O(T n (m + d)).
template <class T>
void em_attention(const EmScheme& scheme, MatrixView<const T> q, MatrixView<const T> k,
                  MatrixView<const T> v, MatrixView<T> out, double* column_sums);

/// A bound on the memory of a call, with gradients or without, for v of width d.
inline std::int64_t em_attention_bytes(const EmScheme& scheme, Index n, Index m, Index d) {
  const Index by_step = 2 * n * m + n * d + 4 * n;
  const Index once = 4 * n * m + 4 * (n + m) * d + 8 * n;
  return static_cast<std::int64_t>(sizeof(double)) * (scheme.iterations * by_step + once);
}

/// The gradients through all steps, for grad_out = ∂L/∂out: writes those of q, k and, unless it has
/// no data, v.
template <class T>
void em_attention_gradients(const EmScheme& scheme, MatrixView<const T> q, MatrixView<const T> k,
                            MatrixView<const T> v, MatrixView<const T> grad_out, MatrixView<T> dq,
                            MatrixView<T> dk, MatrixView<T> dv);

}  // namespace attn::train
