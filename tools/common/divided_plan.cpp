#include "common/divided_plan.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/block_plan.hpp"
#include "common/bundles.hpp"
#include "common/divided_gradient_needs.hpp"
#include "common/divided_part.hpp"
#include "energy/table.hpp"
#include "pass/key_blocks.hpp"
#include "pass/query_blocks.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// Blocks begin at multiples of this, as those of KeyBlocks and QueryBlocks must. A block should be
// small beside what a rank has, and large beside what it costs to begin one.
constexpr Index block_step = 1024;
static_assert(block_step % row_tile_cols == 0 && block_step % pass_tile_length == 0);
constexpr std::int64_t block_bytes = std::int64_t{16} << 20;
constexpr std::int64_t block_part = 16;  // of the memory

constexpr Index fewest_lines = 96;  // of a rank

// Potentials, counts of allowed pairs, sums and entropies by query or key, and twice for a moment.
constexpr Index line_numbers = 5;

bool is_divided(const AttentionInput& input, const DividedWants& wants) {
  if (wants.gradients() && input.gate) return false;
  if (wants.scheme == Scheme::hnas) {
    // At its ends hnas is another scheme.
    for (Index n = 0; n < input.own_problems(); ++n) {
      const double u = wants.hybrid_of(input.own_problem(n));
      if (u == 0 || u == 1) return false;
    }
  } else if (!is_softmax(wants.scheme) && wants.scheme != Scheme::dnas) {
    return false;
  }
  for (const auto* vectors : {&input.q, &input.k, &input.v}) {
    if (*vectors && (*vectors)->weights) return false;
  }
  if (!input.q) return input.scores.has_value();
  // Also those of bfloat16.
  return input.energy().name() == dot_energy().name() ||
         input.energy().name() == scaled_dot_energy().name();
}

bool sees_weights(const DividedWants& wants) { return wants.col_sum || wants.row_entropy; }

// Of a mixture.
Index parts_of(const DividedWants& wants) { return wants.scheme == Scheme::hnas ? 2 : 1; }

// What a line of a block takes.
std::int64_t block_line_bytes(const AttentionInput& input, const DividedWants& wants,
                              const LargestPart& most, std::size_t element_size) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const std::int64_t line = line_bytes(input, element_size);
  const bool sums_rows = divided_steps(wants).back() == DividedStep::columns;
  return sums_rows ? parts_of(wants) * (1 + most.slots) * (number + line) : line;
}

// What a rank takes in one step.
template <class T>
std::int64_t step_bytes(const AttentionInput& input, const DividedWants& wants,
                        const DividedPlan& plan, DividedStep step, const LargestPart& most) {
  const bool by_key = step == DividedStep::columns;
  EnergySizes sizes = input.sizes();
  sizes.queries = by_key ? plan.block : most.lines;
  sizes.keys = by_key ? most.lines : plan.block;
  const std::int64_t energy =
      input.q ? input.recipe(wants.scheme).energy->bytes(sizes, sizeof(T)) : 0;
  // A block, and the next while it is read.
  const std::int64_t read = (most.lines + 2 * plan.block) * line_bytes(input, sizeof(T));
  if (!by_key) {
    const bool softmax = is_softmax(wants.scheme);
    const typename KeyBlocks<T>::Sizes of_blocks{
        .queries = most.lines,
        .slots = most.slots,
        .panel = most.panel,
        .keys = plan.block,
        .all_keys = softmax ? 0 : input.keys,
        .v_head_dim = input.v_head_dim,
        .near_zero = step == DividedStep::rows,
        .parts = parts_of(wants),
        .shows_weights = softmax ? wants.col_sum : sees_weights(wants),
        .column_sums = wants.col_sum};
    return read + energy + KeyBlocks<T>::bytes(of_blocks, plan.threads);
  }
  // g alone needs no sums by query.
  const bool sums_rows = !sees_weights(wants);
  const typename QueryBlocks<T>::Sizes of_blocks{.queries = plan.block,
                                                 .keys = most.lines,
                                                 .panel = most.panel,
                                                 .slots = sums_rows ? most.slots : 0,
                                                 .parts = parts_of(wants),
                                                 .v_head_dim = input.v_head_dim};
  return read + energy + QueryBlocks<T>::bytes(of_blocks, plan.threads);
}

}  // namespace

std::vector<DividedStep> divided_steps(const DividedWants& wants) {
  if (is_softmax(wants.scheme)) return {DividedStep::rows};
  if (!sees_weights(wants)) return {DividedStep::columns};
  return {DividedStep::columns, DividedStep::rows, DividedStep::far_rows};
}

Partition divided_partition(const DividedWants& wants, DividedStep step, Index queries, Index keys,
                            std::size_t element_size) {
  switch (step) {
    case DividedStep::columns:
      return one_pass_columns_partition(queries, keys, element_size, !sees_weights(wants));
    case DividedStep::far_rows:
      return partition_of(Order::row_panels, queries, keys, element_size);
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
    while (end < partition.slots && lines(first, end) < fewest_lines) ++end;
    if (rank + 1 == ranks || lines(end, partition.slots) < fewest_lines) end = partition.slots;
    ends.push_back(end);
    first = end;
  }
  return ends;
}

std::optional<DividedPlan> find_division(const AttentionInput& input, const DividedWants& wants,
                                         std::size_t element_size, const HeadNeeds& needs,
                                         const cli::Arguments& arguments) {
  const Index ranks = arguments.ranks;
  const std::int64_t memory = arguments.memory;
  if (ranks < 2 || !is_divided(input, wants)) return {};
  const std::vector<DividedStep> steps = divided_steps(wants);
  const bool by_key = steps.front() == DividedStep::columns;
  if ((by_key ? input.keys : input.queries) < fewest_lines * ranks) return {};
  std::vector<LargestPart> most;
  Index rows = 0;
  for (const DividedStep step : steps) {
    most.push_back(largest_part(input, wants.scheme, ranks, [&](Index queries, Index keys) {
      return divided_partition(wants, step, queries, keys, element_size);
    }));
    if (step != DividedStep::columns) rows = std::max(rows, most.back().lines);
  }
  if (rows == 0) rows = largest_part(input, wants.scheme, ranks, row_tile_partition).lines;
  const DividedGradientNeeds gradients(input, wants, element_size, ranks, rows);
  DividedPlan plan;
  plan.memory = memory;
  plan.whole_bytes = least_bytes(input, element_size, needs, 1);
  plan.threads = arguments.threads;
  plan.dense_limit = memory / 8;
  const auto lines_of = [&](std::int64_t line) {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    return std::min(block_bytes, memory / block_part) / std::max(number, line) / block_step *
           block_step;
  };
  plan.block = lines_of(block_line_bytes(input, wants, most.front(), element_size));
  // A softmax is as fast in parts; dnas and hnas would make scores again (lib/mpi/README.md).
  const bool fits = least_bytes(input, element_size, needs, arguments.threads) <= memory;
  if (fits && (by_key || input.keys <= plan.block)) return {};
  const Index length =
      std::max(by_key ? input.queries : 0, steps.back() == DividedStep::columns ? 0 : input.keys);
  const auto at_most = [](Index block, Index all) {
    const Index whole = (all + block_step - 1) / block_step * block_step;
    return std::clamp(block, block_step, std::max(block_step, whole));
  };
  plan.block = at_most(plan.block, length);
  plan.gradient_block = at_most(lines_of(gradients.query_bytes()), input.queries);
  for (const io::InputDataset& dataset : input.datasets()) require_readable(dataset, memory);

  const auto bytes = [&] {
    std::int64_t of_steps = 0;
    for (std::size_t n = 0; n < steps.size(); ++n) {
      of_steps =
          std::max(of_steps, (element_size == sizeof(double)
                                  ? step_bytes<double>
                                  : step_bytes<float>)(input, wants, plan, steps[n], most[n]));
    }
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    // With a piece of the output of another rank.
    return std::max(of_steps + gradients.forward_bytes(plan.block) + divided_piece_bytes,
                    gradients.bytes(plan.gradient_block, plan.threads)) +
           wants.kept_bytes + line_numbers * (input.queries + input.keys) * number +
           input.matrix_bytes(element_size, plan.dense_limit);
  };
  if (bytes() > memory) plan.dense_limit = 0;
  while (bytes() > memory && std::max(plan.block, plan.gradient_block) > block_step) {
    for (Index* const block : {&plan.block, &plan.gradient_block}) {
      *block = std::max(block_step, *block - block_step);
    }
  }
  while (bytes() > memory && plan.threads > 1) --plan.threads;
  plan.bytes = bytes();
  // Two blocks may be more than a head that is hardly longer than one.
  if (plan.bytes > memory && plan.whole_bytes <= plan.bytes) return {};
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
  const auto plan = find_division(input, wants, element_size, needs, arguments);
  if (plan) require_room(input, arguments.ranks, *plan);
  return plan;
}

}  // namespace attn::tools
