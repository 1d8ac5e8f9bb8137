#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "attnkit/feasibility.hpp"
#include "feasibility/allowed_pairs.hpp"

namespace attn {

struct FeasibilityOptions {
  /// Of the type that the marginals were rounded to: 2⁻²³ for float32.
  double epsilon = std::numeric_limits<double>::epsilon();
  Index listed = 100;  ///< length of Feasibility::vanishing at most
};

/// Whether a plan P >= 0 over the allowed pairs exists with row sums a (m) and column sums b (n),
/// finite and >= 0 (else Error(input)), and which pairs it can use. A marginal 0 closes its line,
/// which then hinders nothing.
///
/// Totals count as equal where |Σa − Σb| ≤ 4 ε √(m+n) max(Σa, Σb), which sums of rounded numbers
/// stay within. Where all a > 0 are equal and all b > 0 are, what follows is exact. Else what
/// cannot be sent, and what a pair can carry, is taken for rounding where it is at most 4 ε Σ + |Σa
/// − Σb|; the most that a line sends over one pair never is.
///
/// Method: a maximum flow in whole numbers (marginals are scaled by a power of two). A pair can
/// carry mass iff its ends are strongly connected in what the flow leaves (Dulmage & Mendelsohn
/// 1958). O(m + n) where every pair is allowed, O((m + n) log(m + n)) over runs.
Feasibility examine(const AllowedPairs& pairs, std::span<const double> a, std::span<const double> b,
                    const FeasibilityOptions& options = {});

/// Bytes of memory that allowed_pairs(scores) and examine take together, known beforehand. Over
/// bits an estimate from above for flows over no more than 16 pairs a line.
template <class T>
std::int64_t feasibility_bytes(const Scores<T>& scores);

}  // namespace attn
