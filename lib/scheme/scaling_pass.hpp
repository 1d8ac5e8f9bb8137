#pragma once

#include <span>
#include <vector>

#include "scheme/gibbs_kernel.hpp"

namespace attn {

/// One Sinkhorn iteration by products (Sinkhorn and Knopp 1967):
///
///   r_i = Σ_j E_ij κ_j,  ρ_i = a_i / r_i (0 where r_i is),  c_j = Σ_i E_ij ρ_i.
///
/// A block of queries completes r and goes on to its part of c while its tiles are in cache.
/// Factors are rounded to T, sums of float32 products kept in float64 beyond 64 terms.
template <class T>
struct ScalingPass {
  GibbsKernel<T>* kernel = nullptr;  ///< with a reference
  std::span<const double> col_scale;  ///< κ (Lk), ≥ 0; empty: ρ is `row_scale` and r is not taken
  std::span<const double> row_scale;  ///< a (Lq), ≥ 0; empty: all 1
  std::span<double> row_sum;          ///< r (Lq), written; empty where col_scale is
  std::span<double> col_sum;          ///< c (Lk), written
};

/// Runs it. Bits as run_rows has them, whatever tiles are kept. Throws what the scores throw.
template <class T>
void run_scaling(const ScalingPass<T>& pass, int threads);

}  // namespace attn
