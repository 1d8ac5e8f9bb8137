#pragma once

#include <utility>
#include <vector>

#include "attnkit/tensor.hpp"

namespace attn {

/// The solution that Sinkhorn's iterations can find (SPEC.md §2; Sinkhorn & Knopp 1967).
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

}  // namespace attn
