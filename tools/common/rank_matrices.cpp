#include "common/rank_matrices.hpp"

namespace attn::tools {

RankRows ranks_by_matrix(const AttentionInput& input, Index ranks) {
  constexpr Index fewest_rows = 96;
  RankRows found{ranks};
  bool by_query = false;
  for (const auto* operand : {&input.scores, &input.mask, &input.bias, &input.preference}) {
    by_query = by_query || (*operand && (*operand)->rows > 1);
  }
  if (ranks > 1 && by_query && input.queries >= fewest_rows * ranks) {
    found.cut = kernel::Ranks::Rows::neighbouring;
  }
  return found;
}

void take_ranks(const AttentionInput& input, std::size_t element_size, const RankRows& ranks,
                HeadNeeds& needs) {
  if (ranks.cut != kernel::Ranks::Rows::neighbouring) return;
  needs.matrix_rows = most_neighbouring_rows(input.queries, input.keys, element_size, ranks.count);
  needs.kept_bytes += column_exchange_bytes(input.queries, input.keys, element_size, ranks.count);
}

}  // namespace attn::tools
