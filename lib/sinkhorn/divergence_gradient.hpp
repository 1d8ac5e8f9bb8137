#pragma once

#include <span>

#include "sinkhorn/divergence.hpp"
#include "sinkhorn/implicit_gradient.hpp"

/// Derivatives of Sinkhorn's divergence, and of a number L that depends on the potentials of its
/// three problems, by scores and marginals.
///
/// With a penalty ρ (Séjourné et al. 2019), f = F − log a of the potentials F of the problem with
/// the scores σ = s + log a + log b (RelativeEnergy). u and v are those of implicit_gradient for
/// the plan and ρ. A mass enters the penalty, σ and f:
///
///   ∂L/∂a_i = −u_i exp(F_i/ρ) + (Σ_j ∂L/∂σ_ij − x_i)/a_i = −u_i (1 + 1/ρ) r_i/a_i,
///
/// since Σ_j ∂L/∂σ_ij = r_i u_i + Σ_j π_ij v_j = x_i − r_i u_i/ρ, and r_i = a_i exp(F_i/ρ). At a
/// line without mass, with D_i of implicit_marginal_gradient: D_i exp(LSE_j(s_ij − g_j)/(ρ + 1)) −
/// x_i/a_i; 0 if the mass may go nowhere; NaN if a has no mass at all and b has some.
///
/// Terms −x_i/a_i of lines without mass are added up over the problems first: if a_i = 0, −sign(x)
/// ∞ of their sum x, or nothing where they cancel, as in the derivative of S by a. Such a line has
/// q_i of implicit_marginal_gradient and f_i = LSE_j(s_ij − g_j) − log a_i, with a penalty
/// LSE_j(s_ij − g_j) ρ/(ρ + 1) − log a_i, through which x_i also acts on other lines.
namespace attn {

/// ∂S/∂a and ∂S/∂b, finite also at a marginal of 0. With x_i = LSE_j(s_ij − g_j) of both problems
/// that have a: x_aa − x_ab, up to a constant without effect, as Σ a and Σ b stay equal; +inf if
/// the mass may go nowhere, as there is no plan then; NaN if there is no mass. With a penalty ρ: (ρ
/// + 1) (exp(x_aa/(ρ + 1)) − exp(x_ab/(ρ + 1))), so 0 if the mass may go nowhere; −inf if a has no
/// mass at all, and b has some. Four passes.
template <class T>
Potentials divergence_gradient(const DivergenceScores<T>& scores, const SinkhornDivergence& found,
                               const Marginals& marginals, int threads);

/// The derivatives of L by potentials, finite; empty: 0.
struct DivergenceUpstream {
  std::span<const double> row;       ///< by f of a with b (Lq)
  std::span<const double> col;       ///< by g of a with b (Lk)
  std::span<const double> row_self;  ///< by f of a with itself (Lq)
  std::span<const double> col_self;  ///< by g of b with itself (Lk)
};

/// A part π_ij (u_i + v_j) of ∂L/∂s, with the plan of these potentials.
struct ImplicitTerm {
  Potentials potentials;
  ImplicitGradient solved;
};

/// u and v of one problem, and the parts through lines of mass 0 on whose potentials L depends.
struct ProblemGradient : ImplicitGradient {
  PooledVector<ImplicitTerm> without_mass;  ///< two, or none
};

/// u and v of the three problems, each with its own scores. The outcome has the worst status and
/// the most iterations. A side with itself has one potential f = g, which is unique; its upstream
/// is split equally between f and g, and u = v.
struct ImplicitDivergence : ImplicitOutcome {
  ProblemGradient between, row, col;
  /// ∂L/∂a and ∂L/∂b, summed over the three problems: implicit_marginal_gradient, or with penalties
  /// as above.
  Potentials marginals;
};

template <class T>
ImplicitDivergence implicit_divergence(const DivergenceScores<T>& scores, SinkhornDivergence& found,
                                       const Marginals& marginals,
                                       const DivergenceUpstream& upstream,
                                       const ImplicitOptions& options, int threads);

}  // namespace attn
