#pragma once

#include <vector>

#include "plan/planned_operand.hpp"

namespace attn {

/// The parts of an operand's blocks that problems use. Problems share a part if they use the same
/// block and have the same bounds.
struct Regions {
  struct Region {
    Index block = 0;
    Index problem = 0;  ///< the first problem that uses it
  };
  std::vector<Region> all;
  std::vector<Index> of_problem;

  Index of(Index problem) const { return of_problem[static_cast<std::size_t>(problem)]; }
};

/// Two problems have the same bounds if they use the same blocks of all `bounds`.
Regions regions_of(const PlannedOperand& operand, const std::vector<const PlannedOperand*>& bounds);

}  // namespace attn
