#include "common/divided_planner.hpp"

#include <algorithm>

#include "common/bundles.hpp"
#include "pass/key_blocks.hpp"
#include "pass/query_blocks.hpp"

namespace attn::tools {
namespace {

constexpr auto number = static_cast<std::int64_t>(sizeof(double));

constexpr Index block_step = divided_block_step;
static_assert(block_step % row_tile_cols == 0 && block_step % pass_tile_length == 0);
constexpr std::int64_t block_bytes = std::int64_t{16} << 20;
constexpr std::int64_t block_part = 16;  // of the memory

// Potentials, counts of allowed pairs, sums and entropies by query or key, and twice for a moment.
constexpr Index line_numbers = 5;

// No larger than one block of all lines.
Index up_to(Index block, Index lines) {
  const Index whole = (lines + block_step - 1) / block_step * block_step;
  return std::clamp(block, block_step, std::max(block_step, whole));
}

}  // namespace

DivisionPlanner::DivisionPlanner(const AttentionInput& input, const DividedWants& wants,
                                 std::size_t element_size, Index ranks, std::int64_t memory)
    : input_(input),
      wants_(wants),
      element_size_(element_size),
      memory_(memory),
      steps_(divided_steps(wants)),
      most_(largest_parts(ranks)),
      rows_(rows_of_output(ranks)),
      gradients_(input, wants, element_size, ranks, rows_) {}

std::optional<DividedPlan> DivisionPlanner::plan(const HeadNeeds& needs, int threads) const {
  DividedPlan plan;
  plan.memory = memory_;
  plan.whole_bytes = least_bytes(input_, element_size_, needs, 1);
  plan.threads = threads;
  plan.dense_limit = memory_ / 8;
  plan.block = lines_within(block_line_bytes());
  // A softmax is as fast in parts; dnas and hnas would make scores again (lib/mpi/README.md).
  const bool fits = least_bytes(input_, element_size_, needs, threads) <= memory_;
  if (fits && (begins_with_keys() || input_.keys <= plan.block)) return {};
  const Index queries = begins_with_keys() ? input_.queries : 0;
  const Index keys = ends_with_keys() ? 0 : input_.keys;
  plan.block = up_to(plan.block, std::max(queries, keys));
  plan.gradient_block = up_to(lines_within(gradients_.query_bytes()), input_.queries);
  for (const io::InputDataset& dataset : input_.datasets()) require_readable(dataset, memory_);
  fit(plan);
  // Two blocks may be more than a head that is hardly longer than one.
  if (plan.bytes > memory_ && plan.whole_bytes <= plan.bytes) return {};
  return plan;
}

std::vector<LargestPart> DivisionPlanner::largest_parts(Index ranks) const {
  std::vector<LargestPart> most;
  for (const DividedStep step : steps_) {
    most.push_back(largest_part(input_, wants_.scheme, ranks, [&](Index queries, Index keys) {
      return divided_partition(wants_, step, queries, keys, element_size_);
    }));
  }
  return most;
}

// The most queries whose output a rank has.
Index DivisionPlanner::rows_of_output(Index ranks) const {
  if (ends_with_keys()) {
    return largest_part(input_, wants_.scheme, ranks, row_tile_partition).lines;
  }
  Index rows = 0;
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    if (steps_[n] != DividedStep::columns) rows = std::max(rows, most_[n].lines);
  }
  return rows;
}

// The lines of a block of about the best size.
Index DivisionPlanner::lines_within(std::int64_t line_bytes) const {
  return std::min(block_bytes, memory_ / block_part) / std::max(number, line_bytes) / block_step *
         block_step;
}

std::int64_t DivisionPlanner::block_line_bytes() const {
  const std::int64_t line = line_bytes(input_, element_size_);
  return ends_with_keys() ? wants_.parts() * (1 + most_.front().slots) * (number + line) : line;
}

// First without matrices in memory, then with smaller blocks, then with fewer threads.
void DivisionPlanner::fit(DividedPlan& plan) const {
  if (bytes(plan) > memory_) plan.dense_limit = 0;
  while (bytes(plan) > memory_ && std::max(plan.block, plan.gradient_block) > block_step) {
    for (Index* const block : {&plan.block, &plan.gradient_block}) {
      *block = std::max(block_step, *block - block_step);
    }
  }
  while (bytes(plan) > memory_ && plan.threads > 1) --plan.threads;
  plan.bytes = bytes(plan);
}

std::int64_t DivisionPlanner::bytes(const DividedPlan& plan) const {
  std::int64_t of_steps = 0;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    of_steps = std::max(of_steps, element_size_ == sizeof(double) ? step_bytes<double>(plan, step)
                                                                  : step_bytes<float>(plan, step));
  }
  // With a piece of what another rank has, and of a state also an own one.
  const std::int64_t pieces = (wants_.stops ? 2 : 1) * divided_piece_bytes;
  return std::max(of_steps + forward_bytes(plan) + pieces,
                  gradients_.bytes(plan.gradient_block, plan.threads)) +
         wants_.kept_bytes + line_numbers * (input_.queries + input_.keys) * number +
         input_.matrix_bytes(element_size_, plan.dense_limit);
}

// What is kept besides when gradients follow, or rows of the output are shown later.
std::int64_t DivisionPlanner::forward_bytes(const DividedPlan& plan) const {
  if (wants_.gradients() || !wants_.keeps_rows() || !ends_with_keys()) {
    return gradients_.forward_bytes(plan.block);
  }
  return rows_ * input_.v_head_dim * static_cast<std::int64_t>(element_size_);
}

template <class T>
std::int64_t DivisionPlanner::step_bytes(const DividedPlan& plan, std::size_t step) const {
  const bool by_key = steps_[step] == DividedStep::columns;
  EnergySizes sizes = input_.sizes();
  (by_key ? sizes.keys : sizes.queries) = most_[step].lines;
  (by_key ? sizes.queries : sizes.keys) = plan.block;
  const std::int64_t energy =
      input_.q ? input_.recipe(wants_.scheme).energy->bytes(sizes, sizeof(T)) : 0;
  // A block, and the next while it is read.
  const std::int64_t read = (most_[step].lines + 2 * plan.block) * line_bytes(input_, sizeof(T));
  return read + energy +
         (by_key ? query_block_bytes<T>(plan, step) : key_block_bytes<T>(plan, step));
}

template <class T>
std::int64_t DivisionPlanner::key_block_bytes(const DividedPlan& plan, std::size_t step) const {
  const LargestPart& most = most_[step];
  const bool softmax = is_softmax(wants_.scheme);
  typename KeyBlocks<T>::Sizes sizes;
  sizes.queries = most.lines;
  sizes.slots = most.slots;
  sizes.panel = most.panel;
  sizes.keys = plan.block;
  sizes.all_keys = softmax ? 0 : input_.keys;
  sizes.v_head_dim = input_.v_head_dim;
  sizes.near_zero = steps_[step] == DividedStep::rows;
  sizes.parts = wants_.parts();
  sizes.shows_weights = softmax ? wants_.col_sum : wants_.sees_weights();
  sizes.column_sums = wants_.col_sum;
  return KeyBlocks<T>::bytes(sizes, plan.threads);
}

template <class T>
std::int64_t DivisionPlanner::query_block_bytes(const DividedPlan& plan, std::size_t step) const {
  const LargestPart& most = most_[step];
  typename QueryBlocks<T>::Sizes sizes;
  sizes.queries = plan.block;
  sizes.keys = most.lines;
  sizes.panel = most.panel;
  // g alone needs no sums by query.
  sizes.slots = ends_with_keys() ? most.slots : 0;
  sizes.parts = wants_.parts();
  sizes.v_head_dim = input_.v_head_dim;
  return QueryBlocks<T>::bytes(sizes, plan.threads);
}

}  // namespace attn::tools
