#pragma once

#include <cstdint>
#include <span>

#include "sinkhorn/barycentre.hpp"
#include "sinkhorn/conjugate_gradients.hpp"

/// Derivatives of a barycentre's optimum and, by the implicit function theorem, of a number L that
/// depends on the barycentre p (MATHEMATICS.md §2). With h = ∂L/∂p and the sums r_k and c_k of the
/// plans, (U, V, R) solves for all histograms with a weight > 0
///
///   r_ki U_ki + Σ_j π_kij V_kj = R_i,   Σ_i π_kij U_ki + c_kj V_kj = 0,   Σ_k w_k U_ki = h_i,
///   ∂L/∂s_ij = Σ_k w_k π_kij (U_ki + V_kj),   ∂L/∂a_kj = −w_k V_kj,   ∂L/∂w_k = Σ_i f_ki R_i.
///
/// The derivatives by a hold for changes that keep the sums of all histograms equal, those by w for
/// changes that keep Σ w = 1. Sums over lines leave out those without mass.
namespace attn {

/// ∂/∂a_kj of the optimum at the solution, (K, Lk): −w_k g_kj, −inf where a_kj is 0, 0 where w_k
/// is.
PooledVector<double> barycentre_gradient(const Barycentre& found, const Histograms& histograms);

/// The potentials of the transports between p and each histogram.
struct HistogramPotentials {
  SolveStatus status = SolveStatus::converged;  ///< the worst of the transports solved here
  PooledVector<double> row;                     ///< f (K, Lq)
  PooledVector<double> col;                     ///< g (K, Lk)
};

/// Those of `found`, and where w_k is 0, those of a transport that is solved here under the same
/// `options`, because such histograms have no part in the errors of the barycentre.
template <class T>
HistogramPotentials histogram_potentials(const Scores<T>& scores, const Barycentre& found,
                                         const Histograms& histograms,
                                         const BarycentreOptions& options, int threads);

/// ∂/∂w_k of the optimum at the solution, (K): OT(p, a_k) less the mean Σ_l w_l OT(p, a_l). Where
/// w_k is 0 it is the derivative from above.
PooledVector<double> weight_gradient(const Barycentre& found, const Histograms& histograms,
                                     const HistogramPotentials& potentials);

struct ImplicitBarycentre : ImplicitOutcome {
  PooledVector<double> row;    ///< U (K, Lq); 0 for a row without mass, or a weight of 0
  PooledVector<double> col;    ///< V (K, Lk); 0 for a column without mass, or a weight of 0
  PooledVector<double> total;  ///< R (Lq)
};

/// Solves for (U, V, R) by conjugate gradients on the columns' equations, without an array of Lq ×
/// Lk numbers; each takes two passes over the scores for every histogram with a weight > 0. `h`
/// (Lq) is finite. The errors of the plans' sums enter the derivatives as the residual does,
/// multiplied by up to 1/(1 − ρ), where the error of the barycentre's iteration falls by ρ each
/// time. Bits do not depend on the number of threads. Throws whatever the scores throw.
template <class T>
ImplicitBarycentre implicit_barycentre(const Scores<T>& scores, Barycentre& found,
                                       const Histograms& histograms, std::span<const double> h,
                                       const ImplicitOptions& options, int threads);

/// ∂L/∂a (K, Lk). Where a_kj is 0 it is the derivative from above, without the rows whose mass
/// is 0 in T, which count as U = 0; these take another two passes for each histogram.
template <class T>
PooledVector<double> implicit_histogram_gradient(const Scores<T>& scores, Barycentre& found,
                                                 const Histograms& histograms,
                                                 const ImplicitBarycentre& solved, int threads);

/// ∂L/∂w (K). Where w_k is 0 it is the derivative from above.
PooledVector<double> implicit_weight_gradient(const ImplicitBarycentre& solved,
                                              const HistogramPotentials& potentials);

/// Bytes that any of them takes in addition to the scores and its result.
std::int64_t barycentre_gradient_bytes(Index rows, Index cols, Index histograms,
                                       std::size_t element_size, int threads);

}  // namespace attn
