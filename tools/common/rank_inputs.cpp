#include "common/rank_inputs.hpp"

#include <algorithm>

#include "energy/table.hpp"
#include "kernel/packed.hpp"
#include "pass/output.hpp"
#include "score/read_energy.hpp"

namespace attn::tools {

namespace {

HeadNeeds::ReadKeys read_keys(const AttentionInput& input, std::size_t element_size,
                              bool makes_out) {
  const auto element = static_cast<std::int64_t>(element_size);
  const Index energies = input.energies();
  const auto packed = [&](Index width) {
    return kernel::packed_bytes(width, input.keys, element_size);
  };
  HeadNeeds::ReadKeys read;
  read.saved = input.keys * input.depth * element + energies * packed(input.depth);
  read.by_thread = energies * read_energy_bytes(input.keys, input.depth, element_size);
  read.useful = energies * packed(input.depth);
  if (!input.v) return read;
  read.saved += input.keys * input.v_head_dim * element;
  if (!makes_out) return read;
  read.by_thread +=
      (element_size == sizeof(double) ? Output<double>::read_bytes : Output<float>::read_bytes)(
          input.keys, input.v_head_dim) -
      packed(input.v_head_dim);
  return read;
}

}  // namespace

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
                bool makes_out, HeadNeeds& needs) {
  if (ranks.rows.cut != kernel::Ranks::Rows::neighbouring) return;
  needs.rank_rows =
      most_neighbouring_rows(input.queries, input.keys, element_size, ranks.rows.count);
  if (ranks.queries) {
    Index most = *needs.rank_rows;
    bool all_divided = true;
    for (const OwnPart& part : input.parts) {
      if (ranks_divide(part.queries(), ranks.rows.count)) continue;
      // Shorter heads are whole in each rank.
      most = std::max(most, part.queries());
      all_divided = false;
    }
    needs.rank_queries = most;
    if (all_divided && !input.options.bf16 && !(input.v && input.v->weights)) {
      needs.read_keys = read_keys(input, element_size, makes_out);
    }
  }
  needs.kept_bytes +=
      column_exchange_bytes(input.queries, input.keys, element_size, ranks.rows.count);
}

}  // namespace attn::tools
