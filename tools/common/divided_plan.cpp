#include "common/divided_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/block_plan.hpp"
#include "common/divided_planner.hpp"
#include "common/rank_inputs.hpp"
#include "gradient/gradient_blocks.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

bool is_divided(const AttentionInput& input, const DividedWants& wants) {
  const bool has_columns = wants.scheme == Scheme::dnas || wants.scheme == Scheme::hnas;
  if (!is_softmax(wants.scheme) && !has_columns) return false;
  for (const auto* vectors : {&input.q, &input.k, &input.v}) {
    if (*vectors && (*vectors)->weights) return false;
  }
  if (!input.q) return input.scores.has_value();
  return has_product_energy(input);
}

// Of heads at the ends of hnas, of which there are some. `plan` is that of the others;
// `bytes_between` are those of what is kept from one end to the other.
bool add_ends(const DividedWants& wants, std::int64_t bytes_between,
              const std::function<std::optional<DividedPlan>(const DividedWants& wants)>& plan_of,
              std::optional<DividedPlan>& plan) {
  if (wants.gradients()) return false;
  std::vector<DividedPlan> ends;
  for (const Scheme scheme : end_schemes) {
    DividedWants wants_of_end = wants.of_end(scheme, true);
    wants_of_end.kept_bytes += bytes_between;
    const std::optional<DividedPlan> end = plan_of(wants_of_end);
    if (!end) return false;
    ends.push_back(*end);
  }
  if (!plan) plan = ends.front();
  for (const DividedPlan& end : ends) plan->bytes = std::max(plan->bytes, end.bytes);
  plan->ends = std::move(ends);
  return true;
}

}  // namespace

std::vector<DividedStep> divided_steps(const DividedWants& wants) {
  if (is_softmax(wants.scheme)) return {DividedStep::rows};
  if (!wants.sees_weights()) return {DividedStep::columns};
  return {DividedStep::columns, DividedStep::rows, DividedStep::far_rows};
}

Index count_ends(const AttentionInput& input, const DividedWants& wants) {
  Index ends = 0;
  for (Index n = 0; n < input.own_problems(); ++n) ends += wants.is_end(input.own_problem(n));
  return ends;
}

Partition divided_partition(const DividedWants& wants, DividedStep step, Index queries, Index keys,
                            std::size_t element_size) {
  switch (step) {
    case DividedStep::columns:
      return one_pass_columns_partition(queries, keys, element_size, !wants.sees_weights());
    case DividedStep::far_rows:
      return partition_of(Order::row_panels, queries, keys, element_size);
    case DividedStep::gradients:
      return (element_size == sizeof(double) ? GradientBlocks<double>::partition
                                             : GradientBlocks<float>::partition)(
          wants.scheme, wants.gradients_of_scores(), queries, keys);
    case DividedStep::rows:
      break;
  }
  return is_softmax(wants.scheme) && !wants.col_sum
             ? row_tile_partition(queries, keys)
             : row_pass_partition(queries, keys, element_size);
}

std::vector<Index> cut_slots(const Partition& partition, const BandRule& rule, Index ranks) {
  const AllowedCounts counts = Band(partition.rows, partition.cols, rule).allowed_counts();
  const PooledVector<Index>& pairs =
      partition.order == Order::row_panels ? counts.keys_of_query : counts.queries_of_key;
  std::vector<double> before = {0};  // the pairs before each slot
  for (Index slot = 0; slot < partition.slots; ++slot) {
    before.push_back(std::accumulate(pairs.begin() + partition.first_line(slot),
                                     pairs.begin() + partition.first_line(slot + 1),
                                     before.back()));
  }
  const auto lines = [&](Index first, Index end) {
    return partition.first_line(end) - partition.first_line(first);
  };
  std::vector<Index> ends;
  Index first = 0;
  for (Index rank = 0; rank < ranks; ++rank) {
    const double share = before.back() * static_cast<double>(rank + 1) / static_cast<double>(ranks);
    Index end =
        std::max(first, std::lower_bound(before.begin(), before.end(), share) - before.begin());
    while (end < partition.slots && lines(first, end) < least_lines_of_rank) ++end;
    const bool last = rank + 1 == ranks;
    if (last || lines(end, partition.slots) < least_lines_of_rank) end = partition.slots;
    ends.push_back(end);
    first = end;
  }
  return ends;
}

std::optional<DividedPlan> find_division(const AttentionInput& input, const DividedWants& wants,
                                         std::size_t element_size, const HeadNeeds& needs,
                                         const cli::Arguments& arguments) {
  const Index ranks = arguments.ranks;
  if (ranks < 2 || !is_divided(input, wants)) return {};
  const bool by_key = divided_steps(wants).front() == DividedStep::columns;
  if (!ranks_divide(by_key ? input.keys : input.queries, ranks)) return {};
  const auto plan_of = [&](const DividedWants& of) {
    return DivisionPlanner(input, of, element_size, ranks, arguments.memory)
        .plan(needs, arguments.threads);
  };
  const Index ends = count_ends(input, wants);
  std::optional<DividedPlan> plan;
  if (ends < input.own_problems() || ends == 0) {
    plan = plan_of(wants);
    if (!plan) return {};
  }
  // Potentials, and for a checkpoint once more as bytes.
  const std::int64_t bytes_between = (wants.stops ? 2 : 1) * (input.queries + input.keys) *
                                     static_cast<std::int64_t>(sizeof(double));
  if (ends > 0 && !add_ends(wants, bytes_between, plan_of, plan)) return {};
  return plan;
}

void require_room(const AttentionInput& input, Index ranks, const DividedPlan& plan) {
  require_memory(
      fmt::format("one head of {} and {} on {}", cli::counted(input.queries, "query", "queries"),
                  cli::counted(input.keys, "key"), cli::counted(ranks, "rank")),
      plan.bytes, plan.memory);
}

std::optional<DividedPlan> plan_divided(const AttentionInput& input, const DividedWants& wants,
                                        std::size_t element_size, const HeadNeeds& needs,
                                        const cli::Arguments& arguments) {
  auto plan = find_division(input, wants, element_size, needs, arguments);
  if (plan) require_room(input, arguments.ranks, *plan);
  return plan;
}

}  // namespace attn::tools
