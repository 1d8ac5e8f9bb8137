#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sinkhorn/gibbs_kernel.hpp"

namespace attn {

/// One Sinkhorn iteration by products (Sinkhorn and Knopp 1967):
///
///   r_i = Σ_j E_ij κ_j,  ρ_i = a_i / r_i (0 where r_i is),  c_j = Σ_i E_ij ρ_i.
///
/// A block of queries completes r and then adds its part of c while its tiles are in cache. Factors
/// are rounded to T; sums of float32 products move to float64 after 64 terms.
struct ScalingPass {
  std::span<const double> col_scale;  ///< κ (Lk), ≥ 0; empty: ρ is `row_scale`, r is not computed
  std::span<const double> row_scale;  ///< a (Lq), ≥ 0; empty: all 1
  std::span<double> row_sum;          ///< r (Lq), written; empty if col_scale is
  std::span<double> col_sum;          ///< c (Lk), written

  /// ρ (Lq), or empty. A given ρ is over-relaxed: ρ_i ← ρ_i (a_i / (r_i ρ_i))^relaxation. It is > 0
  /// except where a_i or r_i is 0. Relaxation 1 yields the ρ above.
  std::span<double> row_factor;
  double relaxation = 1;

  /// For unbalanced transport: exp(shift_i) (a_i / r_i)^exponent in place of a_i / r_i. An empty
  /// shift is all zeros.
  double row_exponent = 1;
  std::span<const double> row_shift = {};
};

/// Runs such passes over one kernel; they share its memory.
template <class T>
class ScalingPasses {
 public:
  /// `kernel` must have a reference, and must outlive it.
  ScalingPasses(GibbsKernel<T>& kernel, int threads);
  ~ScalingPasses();

  /// The bits depend neither on the number of threads nor on the kept tiles. Throws whatever the
  /// scores throw.
  void run(const ScalingPass& pass);

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace attn
