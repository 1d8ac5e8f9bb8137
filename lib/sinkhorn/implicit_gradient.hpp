#pragma once

#include <cstdint>
#include <span>

#include "pass/potentials.hpp"
#include "score/matrix_source.hpp"
#include "score/scores.hpp"
#include "sinkhorn/conjugate_gradients.hpp"
#include "sinkhorn/marginals.hpp"

/// Derivatives through the solution of transport (MATHEMATICS.md §2): of a number L that depends on
/// the plan and the potentials, with respect to the scores and the marginals, by the implicit
/// function theorem. With G = ∂L/∂π, x = ∂L/∂f, y = ∂L/∂g and the sums r and c of the plan, (u, v)
/// solves
///
///   r_i u_i + Σ_j π_ij v_j = x_i − Σ_j π_ij G_ij,   Σ_i π_ij u_i + c_j v_j = y_j − Σ_i π_ij G_ij,
///   ∂L/∂s_ij = π_ij (G_ij + u_i + v_j),   ∂L/∂a_i = −u_i,   ∂L/∂b_j = −v_j.
///
/// With penalties, r_i is multiplied by 1 + 1/ρ_a and c_j by 1 + 1/ρ_b; ∂L/∂a_i is −u_i
/// exp(f_i/ρ_a), ∂L/∂b_j accordingly; an infinite penalty is one of exact sums. Without penalties,
/// (1, −1) is in the kernel, as (f + t, g − t) are potentials of the same plan. L then takes the
/// potentials with Σ f = Σ g, Σ u = Σ v, and marginals must keep Σ a = Σ b. Sums over lines omit
/// lines without mass, whose x or y does not affect other lines.
namespace attn {

template <class T>
struct PlanUpstream {
  const MatrixSource<T>* plan = nullptr;  ///< G (Lq, Lk), finite; null: 0
  std::span<const double> row;            ///< x (Lq), finite; empty: 0
  std::span<const double> col;            ///< y (Lk), finite; empty: 0
};

/// The derivatives are exact for L + ⟨e, (f, g)⟩, where e is the residual.
struct ImplicitGradient : ImplicitOutcome {
  PooledVector<double> row, col;  ///< u (Lq), v (Lk); 0 for a line without mass
  /// r (Lq) and c (Lk); 0 for a line without mass in T (least_line_mass).
  PooledVector<double> row_sums, col_sums;
};

/// Solves the system by conjugate gradients, one pass over the scores each, without an array of Lq
/// × Lk numbers. The plan should be a solution: an error of its sums enters the derivatives like
/// the residual, multiplied by the condition of the system. Bits do not depend on the number of
/// threads. If masks divide the pairs into parts that share no line, each part has such a kernel,
/// and the residual stays large unless x and y have the same sum in each part. Throws whatever the
/// scores and G throw.
template <class T>
ImplicitGradient implicit_gradient(const Scores<T>& scores, Potentials& potentials,
                                   const Marginals& marginals, const PlanUpstream<T>& upstream,
                                   const ImplicitOptions& options, int threads);

/// ∂L/∂a and ∂L/∂b. At a line without mass the derivative is from above: the line spreads its new
/// mass by q_i, the row of exp(s − g) scaled to the sum 1. With D_i = Σ_j q_ij (G_ij + v_j):
///
///   exact sums   D_i − x_i/a_i: D_i at a_i = 0 if x_i = 0, else −sign(x_i) ∞, as f_i is −log a_i;
///   penalties    (D_i exp(f_i/ρ_a) − x_i/a_i) ρ_a/(ρ_a + 1): at a_i = 0 sign(D_i) ∞ if x_i = 0, as
///                r_i grows like a_i to the power ρ_a/(ρ_a + 1).
///
/// A line whose mass may go nowhere has NaN, with penalties 0. If a side has no mass at all and the
/// other one has some, potentials are infinite: NaN. Lines without mass take two passes
/// for rows and two for columns.
template <class T>
Potentials implicit_marginal_gradient(const Scores<T>& scores, const ImplicitGradient& found,
                                      const Potentials& potentials, const Marginals& marginals,
                                      const PlanUpstream<T>& upstream, int threads);

/// Bytes that either function takes in addition to the scores, G and its result.
std::int64_t implicit_gradient_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
