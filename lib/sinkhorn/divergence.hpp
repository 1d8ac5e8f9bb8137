#pragma once

#include <cstdint>
#include <limits>

#include "sinkhorn/sinkhorn_solver.hpp"

/// Sinkhorn's divergence (Genevay, Peyré and Cuturi 2018; Feydy et al. 2019) of two measures with
/// masses a and b of the same total,
///
///   S(a, b) = OT(a, b) − ½ OT(a, a) − ½ OT(b, b),   OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ),
///
/// which is 0 for a = b and, for costs such as |x − y|², never negative. The constants by which
/// each OT differs from the dual value of transport cancel.
///
/// With penalties ρ, one for all marginals, the masses may have other totals (Séjourné et al.
/// 2019):
///
///   OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ) + ρ KL(P1 ‖ a) + ρ KL(Pᵀ1 ‖ b),
///   S = OT(a, b) − ½ OT(a, a) − ½ OT(b, b) + ½ ε (Σ a − Σ b)².
///
/// Here KL(P ‖ a bᵀ) is no constant more than the entropy of P: the problem is unbalanced transport
/// with the scores of RelativeEnergy. Its dual value is OT without ε Σ a Σ b, and these terms
/// cancel with the last one, so that S is again the sum of the dual values.
namespace attn {

/// The scores −C/ε of three problems: (Lq, Lk), and the square, symmetric scores of each side with
/// itself. All three may be the same.
template <class T>
struct DivergenceScores {
  const Scores<T>& between;
  const Scores<T>& row;
  const Scores<T>& col;
};

/// All in units of the scores.
struct SinkhornDivergence {
  SinkhornSolution between, row, col;  ///< a with b, a with a, b with b
  double value = 0;                    ///< S, of the dual values
  double sharp = 0;                    ///< S with ⟨P, C⟩ in place of OT; NaN with penalties
  /// Bounds of S; NaN if a gap is NaN.
  double lower = std::numeric_limits<double>::quiet_NaN();
  double upper = std::numeric_limits<double>::quiet_NaN();

  /// The worst status of the three problems, and their most iterations.
  SolveStatus status() const;
  Index iterations() const;
};

/// The largest solution_error of the three problems.
double solution_error(const SinkhornDivergence& divergence, std::optional<double> usual);

/// Solves the three problems. Requires Σ a = Σ b or penalties, which are finite and equal. With
/// penalties, potentials and scores of the solutions are those of the given scores, primal and dual
/// those of OT without ε Σ a Σ b. Throws Error(input) if all three have the same scores, which are
/// not symmetric, and whatever solve_sinkhorn throws.
template <class T>
SinkhornDivergence solve_divergence(const DivergenceScores<T>& scores, const Marginals& marginals,
                                    const SinkhornOptions& options, int threads);

}  // namespace attn
