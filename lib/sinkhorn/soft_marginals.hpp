#pragma once

#include <cmath>
#include <optional>
#include <span>

#include "attnkit/transport.hpp"

/// What unbalanced transport adds to Sinkhorn's iteration (Chizat, Peyré, Schmitzer and Vialard
/// 2018). The potential f of a line (row or column) with marginal a and penalty ρ implies the sum a
/// exp(f/ρ). The plan is the solution once all lines have the implied sums. Potentials and
/// penalties are in units of the scores, and a potential of −inf closes its line. A side whose
/// penalty is infinite has exact sums, which is the limit of all formulas.
namespace attn {

/// φ = ρ/(ρ + 1), or 1: the potential of a line is φ (LSE − log a).
inline double soft_exponent(double penalty) {
  return std::isinf(penalty) ? 1 : penalty / (penalty + 1);
}

/// The penalty of each side in which it is not exact.
struct SoftSides {
  std::optional<double> row, col;

  explicit SoftSides(const std::optional<MarginalPenalties>& penalties) {
    if (!penalties) return;
    if (!std::isinf(penalties->row)) row = penalties->row;
    if (!std::isinf(penalties->col)) col = penalties->col;
  }
};

/// ρ_a ρ_b/(ρ_a + ρ_b). Where Σ a ≠ Σ b, potentials grow to this times |log(Σ a/Σ b)|.
inline double joint_penalty(const MarginalPenalties& penalties) {
  return 1 / (1 / penalties.row + 1 / penalties.col);  // not ρ_a ρ_b, which may overflow
}

/// The largest joint penalty. Potentials of this size round by 2⁻⁵³ of it, which changes a plan by
/// a relative 1e-7; this holds in float32, too, as potentials are float64. From some 2³² on
/// iterations no longer converge, and from 2⁵⁰ on masses are wrong.
inline constexpr double most_joint_penalty = 0x1p30;

/// a exp(f/ρ), from log a.
double soft_sum(double log_marginal, double potential, double penalty);

/// log Σ_i a_i exp(f_i/ρ); −inf if all lines are closed. An empty `log_marginal` is all zeros.
double log_soft_mass(std::span<const double> log_marginal, std::span<const double> potential,
                     double penalty);

/// The t for which f − t and g + t maximise the dual; the plan stays the same (Séjourné, Vialard
/// and Peyré 2022): ρ_a ρ_b/(ρ_a + ρ_b) · log(Σ a exp(f/ρ_a) / Σ b exp(g/ρ_b)). Without this
/// translation, iterations for large penalties converge slowly. 0 if either mass is 0 or infinite.
double soft_translation(const MarginalPenalties& penalties, double log_row_mass,
                        double log_col_mass);

/// x log(x/y) − x + y >= 0 for x, y >= 0, a term of KL. The relative error is about 1e-12, plus the
/// errors of x and y. inf for x > 0 = y.
double kl_term(double x, double y);

}  // namespace attn
