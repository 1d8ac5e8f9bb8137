#pragma once

#include "fenchel/dual.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// For each query the p nearest to u whose mean is near the evidence (MATHEMATICS.md §4, FD 5):
///
///   min_p KL(p‖u)  such that  ‖μ + z − Σ p_i t_i‖² <= r,  r = `square_radius` > 0.
///
/// If ‖z‖² <= r, then p = u. Otherwise p, λ and ĥ are the results of solve_dual for the only α at
/// which the distance is √r. Since μ + z − ĥ = λ/α, this is where ‖λ‖² = α²r, and the distance
/// falls in α. α is bracketed, with each solution as the start of the next, and found to a relative
/// 1e-12. A query has converged if
///
/// - the problem for α has converged (DualOptions, with a hundredth of the tolerance),
/// - gap <= tolerance · (1 + primal), and
/// - the squared distance is at most r (1 + max(tolerance, 1e-9)).
///
/// With gradient_tolerance, the first is enough.
///
/// `problem.alpha` is not read. In the summary, `primal` is KL(p‖u), `dual` is ⟨λ, μ+z⟩ − √r‖λ‖ −
/// log Σ u_i exp⟨t_i,λ⟩, and `gap` is |√r‖λ‖ − ⟨λ, μ+z−ĥ⟩|, their difference. Requires a finite r,
/// and no transport. Throws Error(numerical) naming a query for which no p is that
/// near: a hyperplane between μ + z and all templates with u > 0 is farther than √r. Otherwise as
/// solve_dual; takes dual_bytes.
PooledVector<DualSummary> solve_radius(const DualProblem& problem, double square_radius,
                                       const DualOptions& options, int threads,
                                       const DualResults& results);

}  // namespace attn
