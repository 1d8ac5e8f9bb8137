#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attnkit/barycentre.hpp"
#include "pass/pass.hpp"
#include "score/scores.hpp"
#include "sinkhorn/sinkhorn_state.hpp"
#include "tensor/pooled_vector.hpp"

/// The entropic barycentre of histograms a_k with weights w_k, Σ w_k = 1 (MATHEMATICS.md §2): with
/// scores s = −C/ε between the bins of p (rows) and the bins of the a_k (columns)
///
///   min_p Σ_k w_k OT(p, a_k),   OT(p, a) = min −⟨π, s⟩ + Σ π (log π − 1),   π ≥ 0, Σ_j π_ij = p_i,
///                                                                          Σ_i π_ij = a_j,
///
/// by iterative Bregman projections (Benamou, Carlier, Cuturi, Nenna and Peyré 2015) on potentials:
///
///   l_ki = LSE_j(s_ij − g_kj),   log p_i = Σ_k w_k l_ki,   f_ki = l_ki − log p_i,
///   g_kj = LSE_i(s_ij − f_ki) − log a_kj,   repeated, from f = 0.
///
/// The plans are π_k = exp((s − g_k) − f_k), with row sums p. As Σ_k w_k f_k = 0, the dual value
/// Σ_k w_k (−⟨a_k, g_k⟩ − Σ π_k) is a lower bound of the optimum for any g.
namespace attn {

struct Histograms {
  Index count = 0;                  ///< K
  std::span<const double> masses;   ///< a (K, Lk), finite and ≥ 0, where 0 closes a column
  std::span<const double> weights;  ///< w (K), ≥ 0
};

struct Barycentre {
  PooledVector<double> masses;  ///< p (Lq), scaled to the sum of a histogram
  PooledVector<double> row;     ///< f (K, Lq)
  PooledVector<double> col;     ///< g (K, Lk); −inf for a closed column

  /// Sums over k with the weights w_k, in units of the scores. Errors Σ_k w_k |Σ_j π_kij − p_i| and
  /// so on are errors of the plans as shown, with p = `masses`. The optimum is at least the dual,
  /// up to rounding, and at most dual + gap. For plans P_k with exact marginals (p, a_k), the
  /// primal of P minus the dual is Σ_k w_k KL(P_k ‖ π_k); rounding π_k to such plans bounds this
  /// (SinkhornSummary::gap).
  SinkhornSummary summary;
  std::vector<double> errors;  ///< by iteration, up to rounding
};

/// Iterates until the error, Σ_k w_k (‖π_k 1 − p‖₁ + ‖π_kᵀ 1 − a_k‖₁), meets the tolerance or the
/// iterations are used up. The tolerance is tolerance_in_force of sinkhorn_solver.hpp. Requires K ≥
/// 1, Σ w = 1 and Σ_j a_kj equal for all k, up to rounding. A histogram of weight 0 takes no part
/// in p and in the sums, but has potentials. K = 1 is done after one iteration.
///
/// Relative error of p: about 1e-6 in float32, 1e-14 in float64, plus the errors of the scores and
/// of the iteration. The bits do not depend on the number of threads. Throws Error(input) if a pair
/// with a column of mass is forbidden, Error(numerical) for masses whose sums exceed the range of
/// T, and whatever the scores throw. `progress` may be null; a solution resumed from its state has
/// the same bits. An iteration takes 2K products with exp(s) while exponentials of scores and
/// potentials are in range, else 2K passes over the scores.
template <class T>
Barycentre find_barycentre(const Scores<T>& scores, const Histograms& histograms,
                           const BarycentreOptions& options, int threads,
                           SinkhornProgress* progress = nullptr);

/// Shows Σ_k w_k π_k, the derivative of the optimum by the cost, to `observers`. One pass, which
/// holds panels of all K.
template <class T>
void show_mean_plan(const Scores<T>& scores, Barycentre& found, const Histograms& histograms,
                    const ObserverList<T>& observers, int threads);

/// The sums of histograms.
struct HistogramTotals {
  double first = 0;    ///< of the first histogram
  double other = 0;    ///< of the histogram whose sum is farthest from `first`
  Index farthest = 0;  ///< the number of that histogram
  bool equal = false;  ///< whether all count as equal (totals_count_as_equal)
};

/// Scales K histograms (K, Lk) to the sum of the first, if their sums differ only by the rounding
/// of their masses to units of `epsilon`. Throws Error(input) for a sum beyond float64.
HistogramTotals equalise(PooledVector<double>& masses, Index count, double epsilon);

/// The part of histogram k in (K, length).
template <class Values>
auto part_of(Values& values, Index k, Index length) {
  return std::span(values).subspan(static_cast<std::size_t>(k * length),
                                   static_cast<std::size_t>(length));
}

/// Bytes that find_barycentre takes in addition to the scores, kept exponentials and its result.
std::int64_t barycentre_bytes(Index rows, Index cols, Index histograms, std::size_t element_size,
                              int threads);

}  // namespace attn
