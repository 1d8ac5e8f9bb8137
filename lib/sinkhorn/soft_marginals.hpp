#pragma once

#include <span>

#include "attnkit/transport.hpp"

/// What unbalanced transport adds to Sinkhorn's iteration (Chizat, Peyré, Schmitzer and Vialard
/// 2018). A line (row or column) of marginal a, potential f and penalty ρ calls for the sum
/// a exp(f/ρ); the plan is the solution once all sums are what their lines call for. Potentials and
/// penalties are in units of the scores, and a potential of −inf closes its line.
namespace attn {

/// φ = ρ/(ρ + 1): exact sums would give a line the potential LSE − log a; it gets φ times that.
inline double soft_exponent(double penalty) { return penalty / (penalty + 1); }

/// ρ_a ρ_b/(ρ_a + ρ_b). Where Σ a ≠ Σ b, potentials grow to this times |log(Σ a/Σ b)|.
inline double joint_penalty(const MarginalPenalties& penalties) {
  return 1 / (1 / penalties.row + 1 / penalties.col);  // not ρ_a ρ_b, which may overflow
}

/// The largest joint penalty. The rounding of potentials of that size, 2⁻⁵³ of it, changes a plan
/// by 1e-7 of it, in float32 too, as potentials are float64. Iterations no longer converge from
/// some 2³² on, and from 2⁵⁰ on masses are wrong.
inline constexpr double most_joint_penalty = 0x1p30;

/// a exp(f/ρ), from log a.
double soft_sum(double log_marginal, double potential, double penalty);

/// log Σ_i a_i exp(f_i/ρ); −inf if all lines are closed. An empty `log_marginal` is all zeros.
double log_soft_mass(std::span<const double> log_marginal, std::span<const double> potential,
                     double penalty);

/// The t for which f − t and g + t maximise the dual, which leaves the plan as it is (Séjourné,
/// Vialard and Peyré 2022): ρ_a ρ_b/(ρ_a + ρ_b) · log(Σ a exp(f/ρ_a) / Σ b exp(g/ρ_b)). Without
/// it, iterations for large penalties converge slowly. 0 if either mass is 0 or infinite.
double soft_translation(const MarginalPenalties& penalties, double log_row_mass,
                        double log_col_mass);

/// x log(x/y) − x + y >= 0 of x, y >= 0, a term of KL; relative error about 1e-12, and that of x
/// and y. inf for x > 0 = y.
double kl_term(double x, double y);

}  // namespace attn
