#include "explain_away_stats/column_plan.hpp"

#include <algorithm>

#include "explain_away_stats/stored_attention.hpp"
#include "scheme/scheme_description.hpp"
#include "stats/observers.hpp"
#include "stats/sink_figures.hpp"

namespace attn::tools {

namespace {

// Neighbouring rows if all schemes work by rows: others would read the rows of all ranks.
RankRows column_ranks(const ColumnTask& task, Index ranks) {
  bool any_iterated = false;
  for (const std::string& name : task.options().schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    if (!scheme) return {ranks};
    const bool iterated = description_of(*scheme).is_iterated();
    if (!iterated && !is_softmax(*scheme)) return {ranks};
    any_iterated = any_iterated || iterated;
  }
  return any_iterated ? rank_rows(task.input, ranks) : RankRows{ranks};
}

}  // namespace

HeadNeeds column_needs(const ColumnTask& task, bool stops, Index ranks) {
  const ColumnOptions& options = task.options();
  const AttentionInput& input = task.input;
  const std::size_t element_size = options.f64 ? sizeof(double) : sizeof(float);
  const auto number = static_cast<Index>(sizeof(double));
  const auto schemes = static_cast<Index>(options.schemes.size());
  const auto points = static_cast<Index>(task.points.size());
  HeadNeeds needs;
  needs.ranks = column_ranks(task, ranks);
  needs.result_bytes = (points * schemes + 1) * (input.queries + input.keys) * number;
  // The column sums and the numbers of queries are kept for the report, with two bytes per key that
  // mark masked keys and keys with few queries.
  needs.kept_bytes =
      points * input.own_problems() * input.keys * ((schemes + 1) * number + 2) + task.table_bytes;
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  std::int64_t rescaled = 0;  // of the scores at another scale
  std::optional<ItemParts> parts;
  for (const std::string& name : options.schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    const ItemParts of_scheme =
        attend_parts(scheme.value_or(Scheme::hnas), false, input.queries, input.keys, element_size);
    if (!parts || of_scheme.fewest < parts->fewest) parts = of_scheme;
    if (!scheme) continue;
    const std::int64_t state = attend_state_bytes(*scheme, input.queries, input.keys);
    if (stops && state > 0) needs.state_bytes = HeadState::bytes(state);
    needs.useful_bytes = std::max(
        needs.useful_bytes, useful_attend_bytes(options.scheme_options(*scheme, 0), input.queries,
                                                input.keys, element_size, needs.ranks));
    if (points == 1) continue;
    rescaled = std::max(
        rescaled,
        options.f64
            ? HeadScores<double>::bytes(input.recipe(*scheme), input.q.has_value(), input.sizes())
            : HeadScores<float>::bytes(input.recipe(*scheme), input.q.has_value(), input.sizes()));
  }
  needs.parts = parts.value_or(ItemParts());
  needs.work_bytes = [=, sums = ColumnSums<float>::bytes(partition), &task, &options, &input](
                         int threads, std::int64_t dense_limit) {
    std::int64_t most = rescaled;
    for (const std::string& name : options.schemes) {
      const Scheme scheme = scheme_of(name).value_or(Scheme::hnas);
      most = std::max(
          most, rescaled + attend_bytes(scheme, input.queries, input.keys, element_size, threads));
    }
    if (options.wants(stored)) {
      // malloc may keep the memory of the head before.
      most += 2 * StoredAttention::bytes(task.bundle, input, element_size, dense_limit);
    }
    if (options.sinks && input.v) {
      const Index width = input.v_head_dim;
      most += options.f64 ? SinkOutputs<double>::bytes(partition, input.queries, input.keys, width)
                          : SinkOutputs<float>::bytes(partition, input.queries, input.keys, width);
    }
    return most + sums;
  };
  return needs;
}

}  // namespace attn::tools
