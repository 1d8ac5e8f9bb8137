#pragma once

#include <cstdint>
#include <span>

#include "pass/partition.hpp"
#include "pass/potentials.hpp"

namespace attn {

/// Bounds the distance from the optimum of a plan π = exp((s − g) − f) whose sums miss its
/// marginals a = `row_marginal` and b = `col_marginal` by e_i = a_i − Σ_j π_ij and d_j = b_j − Σ_i
/// π_ij. Any pairs may be forbidden.
///
/// The missing mass is sent along the heaviest spanning trees of the pairs that carry mass, which
/// gives a unique δ. Then π + δ is a plan with these marginals, and the optimum is at most dual +
/// gap with
///
///   gap = Σ δ_ij²/π_ij ≥ KL(π + δ ‖ π),
///
/// summed over the trees' pairs, of second order in the errors. NaN if some π_ij + δ_ij < 0, as for
/// plans too far from their marginals. Also NaN if the pairs that carry mass fall into parts and
/// one part as a whole misses more than `rounding` of its marginals; a smaller miss counts as
/// rounding.
///
/// Borůvka's method takes a pass over the plan for each of at most log₂(Lq + Lk) + 1 rounds, with
/// the same bits for any number of threads and ranks. Throws whatever the scores throw.
template <class T>
double tree_gap(const Scores<T>& scores, Potentials& potentials,
                std::span<const double> row_marginal, std::span<const double> col_marginal,
                std::span<const double> row_missing, std::span<const double> col_missing,
                double rounding, int threads);

/// Bytes that tree_gap takes besides the pass, which has this partition.
std::int64_t tree_gap_bytes(const Partition& partition);

}  // namespace attn
