#include "common/rank_inputs.hpp"

#include <algorithm>

#include "energy/table.hpp"

namespace attn::tools {

bool has_product_energy(const AttentionInput& input) {
  // Those of bfloat16 numbers have the same names.
  return input.energy().name() == dot_energy().name() ||
         input.energy().name() == scaled_dot_energy().name();
}

RankInputs rank_inputs(const AttentionInput& input, Index ranks, bool by_rows) {
  RankInputs found{{ranks}};
  if (ranks == 1 || !ranks_divide(input.queries, ranks)) return found;
  bool by_query = false;
  for (const auto* operand : {&input.scores, &input.mask, &input.bias, &input.preference}) {
    by_query = by_query || (*operand && (*operand)->rows > 1);
  }
  found.queries = by_rows && input.q && !input.q->weights && has_product_energy(input) &&
                  (by_query || input.causal == Causal::none);
  if (by_query || found.queries) found.rows.cut = kernel::Ranks::Rows::neighbouring;
  return found;
}

void take_ranks(const AttentionInput& input, std::size_t element_size, const RankInputs& ranks,
                HeadNeeds& needs) {
  if (ranks.rows.cut != kernel::Ranks::Rows::neighbouring) return;
  needs.rank_rows =
      most_neighbouring_rows(input.queries, input.keys, element_size, ranks.rows.count);
  if (ranks.queries) {
    Index most = *needs.rank_rows;
    for (const OwnPart& part : input.parts) {
      // Shorter heads are whole in each rank.
      if (!ranks_divide(part.queries(), ranks.rows.count)) most = std::max(most, part.queries());
    }
    needs.rank_queries = most;
  }
  needs.kept_bytes +=
      column_exchange_bytes(input.queries, input.keys, element_size, ranks.rows.count);
}

}  // namespace attn::tools
