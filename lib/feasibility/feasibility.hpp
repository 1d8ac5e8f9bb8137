#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "feasibility/allowed_pairs.hpp"

namespace attn {

/// What there is to find for Sinkhorn's iterations (SPEC.md §2; Sinkhorn & Knopp 1967).
enum class Prospect {
  total_support,   ///< finite potentials exist: every open pair carries mass in some plan
  vanishing,       ///< a limit plan exists, in which some open pairs are 0: potentials diverge
  no_plan,         ///< no plan over the allowed pairs has these marginals
  unequal_totals,  ///< no plan at all has: Σa ≠ Σb
};

/// Lines that have more to give than all that they may give to can take (Hall's condition fails).
struct Shortage {
  std::vector<Index> lines;  ///< ascending
  Index partners = 0;        ///< lines of the other kind, marginal > 0, allowed to any of them
  double demand = 0;         ///< what the marginals of `lines` add up to
  double capacity = 0;       ///< what those of the partners do; < demand
};

struct Feasibility {
  Prospect prospect = Prospect::total_support;
  double row_total = 0;  ///< Σa
  double col_total = 0;  ///< Σb
  /// no_plan: rows that cannot be served and columns that cannot, either of which is a proof; the
  /// fewest that this cut tells.
  Shortage rows, cols;
  /// vanishing: the pairs that are 0 in every plan although allowed and of marginals > 0.
  Index vanishing_count = 0;
  std::vector<std::pair<Index, Index>> vanishing;  ///< the first of them, row-major
};

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
