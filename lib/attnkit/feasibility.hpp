#pragma once

#include <utility>
#include <vector>

#include "attnkit/tensor.hpp"

namespace attn {

/// The prospect of Sinkhorn's iterations (MATHEMATICS.md §2; Sinkhorn & Knopp 1967).
enum class Prospect {
  total_support,   ///< finite potentials exist: every open pair carries mass in some plan
  vanishing,       ///< a limit plan exists, in which some open pairs are 0: potentials diverge
  no_plan,         ///< no plan over the allowed pairs has these marginals
  unequal_totals,  ///< no plan has these marginals over any pairs: Σa ≠ Σb
};

/// Lines (rows or columns) whose marginals exceed the sum that all their allowed partners accept
/// (Hall's condition fails).
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

}  // namespace attn
