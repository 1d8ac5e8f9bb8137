#pragma once

#include <cstdint>
#include <span>

#include "score/matrix_source.hpp"
#include "sinkhorn/barycentre.hpp"
#include "sinkhorn/conjugate_gradients.hpp"

/// Derivatives of a barycentre's optimum and, by the implicit function theorem, of a number L that
/// depends on the results (MATHEMATICS.md §2): on the barycentre p, the mean plan π̄ = Σ_k w_k π_k
/// and the potentials. With h = ∂L/∂p, G = ∂L/∂π̄, x = ∂L/∂f, y = ∂L/∂g and the sums r_k and c_k of
/// the plans, (U, V, R) solves for all histograms with a weight > 0
///
///   r_ki U_ki + Σ_j π_kij (G_ij + V_kj) = R_i + x_ki/w_k,   Σ_k w_k U_ki = h_i,
///   Σ_i π_kij (G_ij + U_ki) + c_kj V_kj = y_kj/w_k,
///   ∂L/∂s_ij = Σ_k w_k π_kij (G_ij + U_ki + V_kj),   ∂L/∂a_kj = −w_k V_kj,
///   ∂L/∂w_k = Σ_i f_ki R_i + ⟨G, π_k⟩.
///
/// (f_k + t_k, g_k − t_k) with Σ_k w_k t_k = 0 are potentials of the same plans; L takes the
/// potentials for which Σ_i f_ki − Σ_j g_kj is the same for all k. The derivatives with respect to
/// a hold for changes that keep the sums of all histograms equal, with respect to w for changes
/// that keep Σ w = 1. Sums over lines omit lines without mass, whose x or y does not affect other
/// lines.
namespace attn {

/// ∂/∂a_kj of the optimum at the solution, (K, Lk): −w_k g_kj, −inf where a_kj is 0, and 0 where
/// w_k is 0.
PooledVector<double> barycentre_gradient(const Barycentre& found, const Histograms& histograms);

/// The potentials of the transports between p and each histogram.
struct HistogramPotentials {
  SolveStatus status = SolveStatus::converged;  ///< the worst of the transports solved here
  PooledVector<double> row;                     ///< f (K, Lq)
  PooledVector<double> col;                     ///< g (K, Lk)
};

/// The potentials of `found`. Where w_k is 0, a transport is solved here under the same `options`,
/// because such histograms have no part in the errors of the barycentre.
template <class T>
HistogramPotentials histogram_potentials(const Scores<T>& scores, const Barycentre& found,
                                         const Histograms& histograms,
                                         const BarycentreOptions& options, int threads);

/// ∂/∂w_k of the optimum at the solution, (K): OT(p, a_k) less the mean Σ_l w_l OT(p, a_l). Where
/// w_k is 0, the derivative is from above.
PooledVector<double> weight_gradient(const Barycentre& found, const Histograms& histograms,
                                     const HistogramPotentials& potentials);

/// Derivatives of L by the results, finite; empty or null: 0. x and y must be 0 for a histogram of
/// weight 0, whose potentials are not a solution.
template <class T>
struct BarycentreUpstream {
  std::span<const double> masses;         ///< h (Lq)
  const MatrixSource<T>* plan = nullptr;  ///< G (Lq, Lk)
  std::span<const double> row = {};       ///< x (K, Lq)
  std::span<const double> col = {};       ///< y (K, Lk)
};

struct ImplicitBarycentre : ImplicitOutcome {
  /// U (K, Lq); 0 for a weight of 0. The mass of a row may be 0 in T (least_line_mass).
  PooledVector<double> row;
  PooledVector<double> col;    ///< V (K, Lk); 0 for a column without mass, or a weight of 0
  PooledVector<double> total;  ///< R (Lq)
};

/// Solves for (U, V, R) by conjugate gradients on the columns' equations, without an array of Lq ×
/// Lk numbers; each step takes two passes over the scores for every histogram with a weight > 0.
/// The errors of the plans' sums enter the derivatives like the residual, multiplied by up to 1/(1
/// − ρ), where ρ is the factor by which an iteration for the barycentre reduces its error. Bits do
/// not depend on the number of threads. Throws Error(input) for x or y of a histogram of weight 0,
/// and whatever the scores and G throw.
template <class T>
ImplicitBarycentre implicit_barycentre(const Scores<T>& scores, Barycentre& found,
                                       const Histograms& histograms,
                                       const BarycentreUpstream<T>& upstream,
                                       const ImplicitOptions& options, int threads);

/// ∂L/∂a (K, Lk). Where a_kj has no mass in T, the derivative is from above and takes another two
/// passes for each histogram: w_k Σ_i q_ij (G_ij + U_ki) − y_kj/a_kj, with q_ij the column of exp(s
/// − f_k) scaled to the sum 1. At a_kj = 0 with y_kj ≠ 0 it is −sign(y_kj) ∞.
template <class T>
PooledVector<double> implicit_histogram_gradient(const Scores<T>& scores, const Barycentre& found,
                                                 const Histograms& histograms,
                                                 const BarycentreUpstream<T>& upstream,
                                                 const ImplicitBarycentre& solved, int threads);

/// ∂L/∂w (K), less its mean Σ_k w_k ∂L/∂w_k. Where w_k is 0, the derivative is from above. Takes a
/// pass for each histogram if there is a G.
template <class T>
PooledVector<double> implicit_weight_gradient(const Scores<T>& scores, const Barycentre& found,
                                              const Histograms& histograms,
                                              const BarycentreUpstream<T>& upstream,
                                              const ImplicitBarycentre& solved,
                                              const HistogramPotentials& potentials, int threads);

/// Bytes that any of these functions takes in addition to the scores, G and its result.
std::int64_t barycentre_gradient_bytes(Index rows, Index cols, Index histograms,
                                       std::size_t element_size, int threads);

}  // namespace attn
