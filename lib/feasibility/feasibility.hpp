#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "feasibility/allowed_pairs.hpp"

namespace attn {

/// The prospect of Sinkhorn's iterations (MATHEMATICS.md §2; Sinkhorn & Knopp 1967).
enum class Prospect {
  total_support,   ///< finite potentials exist: every open pair carries mass in some plan
  vanishing,       ///< a limit plan exists, in which some open pairs are 0: potentials diverge
  no_plan,         ///< no plan over the allowed pairs has these marginals
  unequal_totals,  ///< no plan has these marginals over any pairs: Σa ≠ Σb
};

/// Lines whose marginals exceed what all their allowed partners accept (Hall's condition fails).
struct Shortage {
  std::vector<Index> lines;  ///< ascending
  Index partners = 0;        ///< lines of the other kind, marginal > 0, allowed to any of `lines`
  double demand = 0;         ///< sum of the marginals of `lines`
  double capacity = 0;       ///< sum of the marginals of the partners; < demand
};

struct Feasibility {
  Prospect prospect = Prospect::total_support;
  double row_total = 0;  ///< Σa
  double col_total = 0;  ///< Σb
  /// no_plan: rows and columns whose demand cannot be met, each of which is a proof; the smallest
  /// sets that this cut shows.
  Shortage rows, cols;
  /// vanishing: pairs that are 0 in every plan although allowed and with marginals > 0.
  Index vanishing_count = 0;
  std::vector<std::pair<Index, Index>> vanishing;  ///< the first of them, row-major
};

struct FeasibilityOptions {
  /// The rounding unit of the type that the marginals were rounded to: 2⁻²³ for float32.
  double epsilon = std::numeric_limits<double>::epsilon();
  Index listed = 100;  ///< greatest length of Feasibility::vanishing
};

/// Whether a plan P >= 0 over the allowed pairs exists with row sums a (m) and column sums b (n),
/// and which pairs it can use. Throws Error(input) if marginals are not finite and >= 0. A marginal
/// 0 closes its line, which then hinders nothing.
///
/// Totals count as equal if |Σa − Σb| ≤ 4 ε √(m+n) max(Σa, Σb), a bound that sums of rounded
/// numbers obey. If all a > 0 are equal and all b > 0 are equal, the rest is exact. Otherwise an
/// amount that cannot be sent, or that a pair can carry, counts as rounding if it is at most 4 ε Σ
/// + |Σa − Σb|; the most that a line sends over one pair never does.
///
/// Method: a maximum flow in whole numbers (marginals are scaled by a power of two). A pair can
/// carry mass iff its ends are strongly connected in the residual graph of the flow (Dulmage &
/// Mendelsohn 1958). O(m + n) if every pair is allowed, O((m + n) log(m + n)) over runs.
Feasibility examine(const AllowedPairs& pairs, std::span<const double> a, std::span<const double> b,
                    const FeasibilityOptions& options = {});

/// Bytes that allowed_pairs(scores) and examine take together, known in advance. Over bits it is an
/// upper estimate, for flows over at most 16 pairs a line.
template <class T>
std::int64_t feasibility_bytes(const Scores<T>& scores);

}  // namespace attn
