#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "attnkit/feasibility.hpp"
#include "feasibility/allowed_pairs.hpp"

namespace attn {

struct FeasibilityOptions {
  /// The rounding unit of the type that the marginals were rounded to: 2⁻²³ for float32.
  double epsilon = std::numeric_limits<double>::epsilon();
  Index listed = 100;  ///< greatest length of Feasibility::vanishing
};

/// Whether two totals, of `lines` numbers together, rounded to units of `epsilon`, count as equal:
/// |x − y| ≤ 4 ε √lines max(x, y), a bound that sums of rounded numbers obey.
bool totals_count_as_equal(double x, double y, std::size_t lines, double epsilon);

/// Whether a plan P >= 0 over the allowed pairs exists with row sums a (m) and column sums b (n),
/// and which pairs it can use. Throws Error(input) if marginals are not finite and >= 0. A marginal
/// of 0 closes its line, which is then ignored.
///
/// The totals must count as equal (totals_count_as_equal). If all positive a are equal and all
/// positive b are equal, the result is exact. Otherwise amounts of at most 4 ε max(Σa, Σb) +
/// |Σa − Σb| count as rounding, whether they cannot be sent or a pair can carry them. The largest
/// amount that a line sends over one pair never counts as rounding.
///
/// Method: a maximum flow in whole numbers (marginals are scaled by a power of two). A pair can
/// carry mass iff its ends are strongly connected in the residual graph of the flow (Dulmage &
/// Mendelsohn 1958). O(m + n) if every pair is allowed, O((m + n) log(m + n)) over runs.
Feasibility examine(const AllowedPairs& pairs, std::span<const double> a, std::span<const double> b,
                    const FeasibilityOptions& options = {});

/// Bytes that allowed_pairs(scores) and examine take together, known in advance. Over bits, this is
/// an upper estimate for flows over at most 16 pairs a line.
template <class T>
std::int64_t feasibility_bytes(const Scores<T>& scores);

}  // namespace attn
