#include "explain_away_stats/column_plan.hpp"

#include <algorithm>

#include "common/restart.hpp"
#include "explain_away_stats/stored_attention.hpp"
#include "scheme/scheme_description.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "sinkhorn/gibbs_kernel.hpp"
#include "stats/observers.hpp"

namespace attn::tools {

std::vector<DividedScheme> divided_schemes(const cli::Arguments& arguments,
                                           const ColumnTask& task) {
  if (task.points.size() > 1) return {};
  const bool stops = checkpoints(arguments);
  const HeadNeeds needs = column_needs(task, stops, {{arguments.ranks}});
  // A checkpoint holds what earlier schemes have found of a head.
  const Index copies = stops && task.options().schemes.size() > 1 ? 2 : 1;
  std::vector<DividedScheme> all;
  for (const std::string& name : task.options().schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    if (!scheme) return {};
    const DividedWants wants{.scheme = *scheme,
                             .col_sum = true,
                             .row_entropy = true,
                             .hybrid = task.options().hybrid,
                             .kept_bytes = needs.kept_bytes + copies * needs.result_bytes,
                             .both_ends = false,
                             .stops = stops};
    const std::size_t element = task.options().f64 ? sizeof(double) : sizeof(float);
    const std::optional<DividedPlan> plan =
        find_division(task.input, wants, element, needs, arguments);
    if (!plan) return {};
    all.push_back({wants, *plan});
  }
  const auto most = std::max_element(all.begin(), all.end(),
                                     [](const DividedScheme& one, const DividedScheme& other) {
                                       return one.plan.bytes < other.plan.bytes;
                                     });
  require_room(task.input, arguments.ranks, most->plan);
  return all;
}

RankInputs column_ranks(const cli::Arguments& arguments, const ColumnTask& task) {
  const RankInputs whole{{arguments.ranks}};
  bool any_iterated = false;
  for (const std::string& name : task.options().schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    if (!scheme) return whole;
    const bool iterated = description_of(*scheme).is_iterated();
    // What a checkpoint keeps of a softmax are slots, which ranks then have in turn.
    const bool by_rows = iterated ? !task.options().scheme_options(*scheme, 0).once()
                                  : is_softmax(*scheme) && !checkpoints(arguments);
    if (!by_rows) return whole;
    any_iterated = any_iterated || iterated;
  }
  return any_iterated ? rank_inputs(task.input, arguments.ranks, true) : whole;
}

HeadNeeds column_needs(const ColumnTask& task, bool stops, const RankInputs& ranks) {
  const ColumnOptions& options = task.options();
  const AttentionInput& input = task.input;
  const std::size_t element_size = options.f64 ? sizeof(double) : sizeof(float);
  const auto number = static_cast<Index>(sizeof(double));
  const auto schemes = static_cast<Index>(options.schemes.size());
  const auto points = static_cast<Index>(task.points.size());
  HeadNeeds needs;
  needs.result_bytes = (points * schemes + 1) * (input.queries + input.keys) * number;
  // The column sums and the numbers of queries are kept for the report, with a byte per key that
  // marks masked keys.
  needs.kept_bytes = points * input.own_problems() * input.keys * ((schemes + 1) * number + 1);
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  std::int64_t rescaled = 0;  // of the scores at another scale
  // What is kept are exponentials, of which each rank has a part.
  const std::int64_t kept = kept_kernel_bytes(input.queries, input.keys, element_size, ranks.rows);
  std::optional<kernel::ItemParts> parts;
  for (const std::string& name : options.schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    const kernel::ItemParts of_scheme =
        attend_parts(scheme.value_or(Scheme::hnas), false, input.queries, input.keys, element_size);
    if (!parts || of_scheme.fewest < parts->fewest) parts = of_scheme;
    if (!scheme) continue;
    if (stops && description_of(*scheme).is_iterated()) {
      needs.record_bytes = HeadRecord::bytes(iteration_state_bytes(input.queries, input.keys));
    }
    const std::int64_t useful = useful_attend_bytes(options.scheme_options(*scheme, 0),
                                                    input.queries, input.keys, element_size);
    needs.useful_bytes = std::max(needs.useful_bytes, std::min(useful, kept));
    if (points == 1) continue;
    rescaled = std::max(
        rescaled,
        options.f64
            ? HeadScores<double>::bytes(input.recipe(*scheme), input.q.has_value(), input.sizes())
            : HeadScores<float>::bytes(input.recipe(*scheme), input.q.has_value(), input.sizes()));
  }
  needs.parts = parts.value_or(kernel::ItemParts());
  take_ranks(input, element_size, ranks, false, needs);
  needs.work_bytes = [=, sums = ColumnSums<float>::bytes(partition), &task, &options, &input](
                         int threads, std::int64_t dense_limit) {
    std::int64_t most = threads * rescaled;
    for (const std::string& name : options.schemes) {
      const Scheme scheme = scheme_of(name).value_or(Scheme::hnas);
      most = std::max(most, threads * rescaled + attend_bytes(scheme, input.queries, input.keys,
                                                              element_size, threads));
    }
    if (options.wants(stored)) {
      most += threads * StoredAttention::bytes(task.bundle, input, element_size, dense_limit);
    }
    return most + threads * sums;
  };
  return needs;
}

}  // namespace attn::tools
