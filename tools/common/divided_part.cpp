#include "common/divided_part.hpp"

#include <algorithm>

namespace attn::tools {

LargestPart largest_part(const AttentionInput& input, Scheme scheme, Index ranks,
                         const std::function<Partition(Index queries, Index keys)>& partition_of) {
  const ScoreRecipe recipe = input.recipe(scheme);
  LargestPart most;
  const OwnPart* last = nullptr;
  for (Index n = 0; n < input.own_problems(); ++n) {
    const OwnPart& part = input.part(input.own_problem(n));
    // Heads of one sequence are alike.
    const bool known = last != nullptr && last->queries() == part.queries() &&
                       last->keys() == part.keys() && last->offset == part.offset;
    last = &part;
    if (known) continue;
    const Partition partition = partition_of(part.queries(), part.keys());
    const BandRule rule{recipe.causal, recipe.window, part.offset};
    Index first = 0;
    for (const Index end : cut_slots(partition, rule, ranks)) {
      most.lines = std::max(most.lines, partition.first_line(end) - partition.first_line(first));
      most.slots = std::max(most.slots, end - first);
      first = end;
    }
    most.panel = std::max(most.panel, partition.panel);
  }
  return most;
}

std::int64_t line_bytes(const AttentionInput& input, std::size_t element_size) {
  return (input.depth + input.v_head_dim) * static_cast<std::int64_t>(element_size);
}

}  // namespace attn::tools
