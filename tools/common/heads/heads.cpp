#include "common/heads/heads.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/bundles.hpp"
#include "pass/pass.hpp"

namespace attn::tools {
namespace {

// Enough work per batch to keep the threads busy between two rounds of reading and writing.
constexpr Index panels_per_thread = 32;

// Less than this fraction (1/8) of HeadNeeds::useful_bytes would save hardly any time.
constexpr std::int64_t least_useful_part = 8;

// One large head for each thread is enough, even if memory has room for more.
constexpr std::int64_t batch_bytes = std::int64_t{32} << 20;

std::int64_t input_bytes(const AttentionInput& input, std::size_t element_size,
                         const HeadNeeds& needs, std::int64_t dense_limit) {
  std::optional<Index> matrix_rows;
  if (needs.ranks.cut == Ranks::Rows::neighbouring) {
    matrix_rows =
        most_neighbouring_rows(input.queries, input.keys, element_size, needs.ranks.count);
  }
  return input.head_bytes(element_size, dense_limit, needs.queries, matrix_rows);
}

// Kept for all heads together.
std::int64_t kept_bytes(const AttentionInput& input, std::size_t element_size,
                        const HeadNeeds& needs) {
  if (needs.ranks.cut != Ranks::Rows::neighbouring) return needs.kept_bytes;
  return needs.kept_bytes +
         column_exchange_bytes(input.queries, input.keys, element_size, needs.ranks.count);
}

}  // namespace

RankRows rank_rows(const AttentionInput& input, Index ranks) {
  RankRows rows{ranks};
  for (const auto* operand : {&input.scores, &input.mask, &input.bias, &input.preference}) {
    const bool by_query = *operand && (*operand)->rows > 1;
    if (ranks > 1 && by_query) rows.cut = Ranks::Rows::neighbouring;
  }
  return rows;
}

Index MemoryPlan::heads_at_once() const {
  for (Index count = batch; count > 1; --count) {
    if (takes_heads_each(count)) return std::min<Index>(count, threads);
  }
  return 1;
}

std::int64_t least_bytes(const AttentionInput& input, std::size_t element_size,
                         const HeadNeeds& needs, int threads) {
  return input_bytes(input, element_size, needs, 0) + needs.result_bytes +
         kept_bytes(input, element_size, needs) + needs.work_bytes(threads, 0);
}

std::vector<HeadPart> parts_of_heads(const AttentionInput& input, const MemoryPlan& plan) {
  std::vector<HeadPart> parts;
  for (Index n = 0; n < input.own_problems(); ++n) {
    const Index problem = input.own_problem(n);
    const OwnPart& own = input.part(problem);
    if (!plan.queries || own.queries() <= *plan.queries) {
      parts.push_back({.problem = problem, .queries = std::nullopt});
      continue;
    }
    for (Index first = 0; first < own.queries(); first += *plan.queries) {
      const Index count = std::min(*plan.queries, own.queries() - first);
      parts.push_back({problem, RowRange{first, first + count}});
    }
  }
  return parts;
}

double share_of_head(const AttentionInput& input, const HeadPart& part) {
  if (!part.queries) return 1;
  const auto count = static_cast<double>(part.queries->last - part.queries->first);
  return count / static_cast<double>(input.part(part.problem).queries());
}

MemoryPlan plan_memory(const AttentionInput& input, std::size_t element_size,
                       const HeadNeeds& needs, int threads, std::int64_t memory) {
  for (const ArraySource& dataset : input.datasets()) require_readable(dataset, memory);
  MemoryPlan plan;
  const auto per_head = [&] {
    return input_bytes(input, element_size, needs, plan.dense_limit) + needs.result_bytes;
  };
  const auto bytes = [&] {
    const auto work = [&](int count) { return needs.work_bytes(count, plan.dense_limit); };
    // Each thread works on a head of its own, or all threads work on one head together.
    const std::int64_t work_bytes = std::max(work(plan.threads), plan.heads_at_once() * work(1));
    return plan.batch * per_head() + kept_bytes(input, element_size, needs) + needs.state_bytes +
           work_bytes;
  };
  plan.threads = threads;
  plan.queries = needs.queries;
  plan.parts = needs.parts;
  plan.dense_limit = memory / 8;
  if (bytes() > memory) plan.dense_limit = 0;
  while (bytes() > memory && plan.threads > 1) --plan.threads;
  plan.bytes = bytes();
  require_memory(
      fmt::format("one head of {}{} and {}", cli::counted(input.queries, "query", "queries"),
                  needs.queries ? fmt::format(", {} of them at a time,", *needs.queries) : "",
                  cli::counted(input.keys, "key")),
      plan.bytes, memory);
  if (needs.queries) {
    // More heads at a time would leave no room for as many queries.
    return plan;
  }
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  const Index busy = (panels_per_thread * plan.threads + partition.panels - 1) / partition.panels;
  const std::int64_t of_head = std::max<std::int64_t>(1, per_head());
  const std::int64_t held = std::min(memory - plan.bytes, batch_bytes);
  const Index affordable = std::max<Index>(
      1 + held / of_head, std::min<Index>(plan.threads, 1 + (memory - plan.bytes) / of_head));
  plan.batch = std::clamp<Index>(std::min(busy, affordable), 1, input.own_problems());
  while (bytes() > memory && plan.batch > 1) --plan.batch;
  plan.bytes = bytes();
  const Index at_once = plan.heads_at_once();
  plan.useful_bytes = std::min(needs.useful_bytes, (memory - plan.bytes) / at_once);
  if (plan.useful_bytes < needs.useful_bytes / least_useful_part) plan.useful_bytes = 0;
  plan.bytes += at_once * plan.useful_bytes;
  return plan;
}

}  // namespace attn::tools
