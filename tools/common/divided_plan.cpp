#include "common/divided_plan.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/block_plan.hpp"
#include "common/bundles.hpp"
#include "energy/table.hpp"
#include "kernel/ranks.hpp"
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

bool has_divided_scores(const AttentionInput& input, Scheme scheme) {
  if (!is_softmax(scheme) && scheme != Scheme::dnas) return false;
  for (const auto* vectors : {&input.q, &input.k, &input.v}) {
    if (*vectors && (*vectors)->weights) return false;
  }
  if (!input.q) return input.scores.has_value();
  // Also those of bfloat16.
  return input.energy().name() == dot_energy().name() ||
         input.energy().name() == scaled_dot_energy().name();
}

// The most that a rank has of any head.
struct Part {
  Index lines = 0;
  Index slots = 0;
  Index panel = 0;  // lines of a panel
};

Part largest_part(const AttentionInput& input, const DividedWants& wants, std::size_t element_size,
                  Index ranks) {
  const ScoreRecipe recipe = input.recipe(wants.scheme);
  Part most;
  const OwnPart* last = nullptr;
  for (Index n = 0; n < input.own_problems(); ++n) {
    const OwnPart& part = input.part(input.own_problem(n));
    // Heads of one sequence are alike.
    const bool known = last != nullptr && last->queries() == part.queries() &&
                       last->keys() == part.keys() && last->offset == part.offset;
    last = &part;
    if (known) continue;
    const Partition partition = divided_partition(wants, part.queries(), part.keys(), element_size);
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

}  // namespace

Partition divided_partition(const DividedWants& wants, Index queries, Index keys,
                            std::size_t element_size) {
  if (wants.scheme == Scheme::dnas) return one_pass_columns_partition(queries, keys, element_size);
  return wants.col_sum ? row_pass_partition(queries, keys, element_size)
                       : row_tile_partition(queries, keys);
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

std::optional<DividedPlan> plan_divided(const AttentionInput& input, const DividedWants& wants,
                                        std::size_t element_size, const HeadNeeds& needs,
                                        int threads, std::int64_t memory) {
  const kernel::Ranks* const ranks = kernel::Ranks::current();
  if (ranks == nullptr || ranks->count() < 2 || !has_divided_scores(input, wants.scheme)) return {};
  const bool by_key = wants.scheme == Scheme::dnas;
  if (by_key && (wants.col_sum || wants.row_entropy)) return {};
  const Index lines = by_key ? input.keys : input.queries;
  if (lines < fewest_lines * ranks->count()) return {};
  DividedPlan plan;
  plan.memory = memory;
  plan.whole_bytes = least_bytes(input, element_size, needs, 1);
  const Index length = by_key ? input.queries : input.keys;
  const Part most = largest_part(input, wants, element_size, ranks->count());
  const auto element = static_cast<std::int64_t>(element_size);
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  // q and out of a query, or k and v of a key.
  const std::int64_t line_bytes = (input.depth + input.v_head_dim) * element;
  const std::int64_t in_block =
      std::max(number, by_key ? (1 + most.slots) * (number + line_bytes) : line_bytes);
  plan.threads = threads;
  plan.dense_limit = memory / 8;
  plan.block = std::min(block_bytes, memory / block_part) / in_block / block_step * block_step;
  // A softmax is as fast in parts (lib/mpi/README.md); dnas would make scores again for nothing.
  const bool fits = least_bytes(input, element_size, needs, threads) <= memory;
  if (fits && (by_key || length <= plan.block)) return {};
  const Index all = (length + block_step - 1) / block_step * block_step;
  plan.block = std::clamp(plan.block, block_step, std::max(block_step, all));
  for (const io::InputDataset& dataset : input.datasets()) require_readable(dataset, memory);

  const auto bytes = [&] {
    EnergySizes sizes = input.sizes();
    sizes.queries = by_key ? plan.block : most.lines;
    sizes.keys = by_key ? most.lines : plan.block;
    const std::int64_t energy =
        input.q ? input.recipe(wants.scheme).energy->bytes(sizes, element_size) : 0;
    const bool f64 = element_size == sizeof(double);
    const std::int64_t work =
        by_key ? (f64 ? QueryBlocks<double>::bytes : QueryBlocks<float>::bytes)(
                     plan.block, most.lines, most.slots, most.panel, input.v_head_dim, plan.threads)
               : (f64 ? KeyBlocks<double>::bytes : KeyBlocks<float>::bytes)(
                     most.lines, plan.block, most.slots, input.v_head_dim, wants.col_sum,
                     plan.threads);
    // A block, the next while it is read, and a piece of the output of another rank.
    return most.lines * line_bytes + 2 * plan.block * line_bytes + divided_piece_bytes + energy +
           work + line_numbers * (input.queries + input.keys) * number +
           input.matrix_bytes(element_size, plan.dense_limit);
  };
  if (bytes() > memory) plan.dense_limit = 0;
  while (bytes() > memory && plan.block > block_step) plan.block -= block_step;
  while (bytes() > memory && plan.threads > 1) --plan.threads;
  plan.bytes = bytes();
  // Two blocks may be more than a head that is hardly longer than one.
  if (plan.bytes > memory && plan.whole_bytes <= memory) return {};
  require_memory(
      fmt::format("one head of {} and {} on {}", cli::counted(input.queries, "query", "queries"),
                  cli::counted(input.keys, "key"), cli::counted(ranks->count(), "rank")),
      plan.bytes, memory);
  return plan;
}

}  // namespace attn::tools
