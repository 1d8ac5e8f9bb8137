#include "plan/regions.hpp"

#include <map>

namespace attn {

Regions regions_of(const PlannedOperand& operand,
                   const std::vector<const PlannedOperand*>& bounds) {
  Regions regions;
  std::map<std::vector<Index>, Index> known;
  for (std::size_t n = 0; n < operand.block_of.size(); ++n) {
    const auto problem = static_cast<Index>(n);
    std::vector<Index> blocks{operand.block(problem)};
    for (const PlannedOperand* bound : bounds) blocks.push_back(bound->block(problem));
    const auto next = static_cast<Index>(regions.all.size());
    const auto [found, is_new] = known.emplace(std::move(blocks), next);
    if (is_new) regions.all.push_back({operand.block(problem), problem});
    regions.of_problem.push_back(found->second);
  }
  return regions;
}

}  // namespace attn
