#pragma once

#include <cstdint>
#include <functional>

#include "feasibility/max_flow.hpp"
#include "pass/potentials.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// An optimal basis of max Σ P_ij s_ij, as the amounts that its pairs carry and its potentials.
struct BasicPlan {
  PooledVector<Shipment> shipments;  ///< no pair twice; at most one less than there are lines
  /// f_i + g_j ≥ s_ij for all pairs, with equality where the plan has mass, both up to the rounding
  /// of scores. −inf for a line without mass.
  Potentials potentials;
  Index pivots = 0;
};

/// Writes all scores: finite, or −inf for a forbidden pair.
using FillScores = std::function<void()>;

/// Solves Kantorovich's problem by the primal network simplex (Ahuja, Magnanti and Orlin 1993,
/// chapter 11) on a dense matrix. It is faster the fewer columns there are. `supply` (m) and `room`
/// (n) are whole numbers ≥ 0 with equal sums; a line of 0 is closed. Only allowed pairs carry mass.
/// If no plan over them has these marginals, other pairs carry the least possible total, which is
/// left out of the shipments.
///
/// Amounts are exact. Scores are rounded to whole multiples of a unit, about 2⁻⁴⁶ of the largest
/// potential, such that sums of scores and potentials are exact in float64. The bases are strongly
/// feasible, so none comes back and the method ends: no tolerance is involved. `fill` writes the
/// scores to `matrix` (m, n), which serves as working memory; it is called at most five times.
/// Bits do not depend on threads. Throws Stopped between pivots, and whatever `fill` throws.
template <class T>
BasicPlan solve_by_pivots(MatrixView<T> matrix, const FillScores& fill,
                          PooledVector<std::int64_t> supply, PooledVector<std::int64_t> room);

/// Bytes that solve_by_pivots takes, the matrix included; 2⁵² if there are more than 2³¹ lines or
/// 2⁴⁸ pairs.
std::int64_t pivoting_bytes(Index rows, Index cols, std::size_t element_size);

}  // namespace attn
