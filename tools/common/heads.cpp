#include "common/heads.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/block_plan.hpp"
#include "common/bundles.hpp"
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
  return input.head_bytes(element_size, dense_limit,
                          needs.queries ? needs.queries : needs.rank_queries, needs.rank_rows);
}

}  // namespace

void warn_of_finite_masks(double least_bias, const std::vector<Scheme>& schemes,
                          cli::Report& report) {
  constexpr double as_low_as_a_mask = -9984;  // -1e4 as bfloat16 has it
  if (!(least_bias <= as_low_as_a_mask)) return;
  std::vector<std::string> names;
  for (const Scheme scheme : schemes) {
    const std::string name = scheme_name(scheme);
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    if (!is_softmax(scheme) && !listed) names.push_back(name);
  }
  if (names.empty()) return;
  report.warn(fmt::format(
      "bias has finite values of -1e4 or less, which forbid nothing under {}: keys that they were "
      "meant to mask receive as much attention as others; only -inf forbids",
      fmt::join(names, ", ")));
}

Index MemoryPlan::heads_at_once() const {
  for (Index count = batch; count > 1; --count) {
    if (takes_heads_each(count)) return std::min<Index>(count, threads);
  }
  return 1;
}

std::int64_t least_bytes(const AttentionInput& input, std::size_t element_size,
                         const HeadNeeds& needs, int threads) {
  return input_bytes(input, element_size, needs, 0) + needs.result_bytes + needs.kept_bytes +
         needs.work_bytes(threads, 0);
}

std::vector<HeadPart> parts_of_heads(const AttentionInput& input, const MemoryPlan& plan) {
  std::vector<HeadPart> parts;
  for (Index n = 0; n < input.own_problems(); ++n) {
    const Index problem = input.own_problem(n);
    const OwnPart& own = input.part(problem);
    if (!plan.queries || own.queries() <= *plan.queries) {
      parts.push_back({.problem = problem, .pairs = std::nullopt});
      continue;
    }
    for (Index first = 0; first < own.queries(); first += *plan.queries) {
      const Index count = std::min(*plan.queries, own.queries() - first);
      parts.push_back({problem, TileRange{first, count, 0, own.keys()},
                       static_cast<double>(count) / static_cast<double>(own.queries())});
    }
  }
  return parts;
}

MemoryPlan plan_memory(const AttentionInput& input, std::size_t element_size,
                       const HeadNeeds& needs, int threads, std::int64_t memory) {
  for (const io::InputDataset& dataset : input.datasets()) require_readable(dataset, memory);
  MemoryPlan plan;
  const auto reading = [&] { return plan.key_bytes ? *needs.read_keys : HeadNeeds::ReadKeys(); };
  const auto per_head = [&] {
    return input_bytes(input, element_size, needs, plan.dense_limit) + needs.result_bytes -
           reading().saved;
  };
  const auto bytes = [&] {
    const auto work = [&](int count) {
      return needs.work_bytes(count, plan.dense_limit) + count * reading().by_thread;
    };
    // Each thread works on a head of its own, or all threads work on one head together.
    const std::int64_t work_bytes = std::max(work(plan.threads), plan.heads_at_once() * work(1));
    return plan.batch * per_head() + needs.kept_bytes + needs.record_bytes + work_bytes;
  };
  plan.threads = threads;
  plan.queries = needs.queries;
  plan.parts = needs.parts;
  plan.rank_queries = needs.rank_queries.has_value();
  plan.dense_limit = memory / 8;
  if (bytes() > memory) plan.dense_limit = 0;
  while (bytes() > memory && plan.threads > 1) --plan.threads;
  if (const std::int64_t held = bytes(); held > memory && needs.read_keys) {
    plan.key_bytes = 0;
    if (bytes() < held) {
      plan.threads = threads;
      while (bytes() > memory && plan.threads > 1) --plan.threads;
    } else {
      plan.key_bytes.reset();
    }
  }
  plan.bytes = bytes();
  require_memory(
      fmt::format("one head of {}{} and {}", cli::counted(input.queries, "query", "queries"),
                  needs.queries ? fmt::format(", {} of them at a time,", *needs.queries) : "",
                  cli::counted(input.keys, "key")),
      plan.bytes, memory);
  if (needs.queries) {
    // More heads at a time would leave no room for as many queries.
    plan.spare_bytes = memory - plan.bytes + needs.record_bytes;
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
  if (plan.key_bytes) plan.batch = 1;
  while (bytes() > memory && plan.batch > 1) --plan.batch;
  plan.bytes = bytes();
  if (plan.key_bytes) {
    // Whole useful_bytes save more: then scores are not made again.
    const std::int64_t left = memory - plan.bytes;
    const std::int64_t after = left - needs.useful_bytes;
    plan.key_bytes = std::min(needs.read_keys->useful, after >= 0 ? after : left);
    plan.bytes += *plan.key_bytes;
  }
  const Index at_once = plan.heads_at_once();
  plan.useful_bytes = std::min(needs.useful_bytes, (memory - plan.bytes) / at_once);
  if (plan.useful_bytes < needs.useful_bytes / least_useful_part) plan.useful_bytes = 0;
  plan.bytes += at_once * plan.useful_bytes;
  plan.spare_bytes = memory - plan.bytes + needs.record_bytes;
  return plan;
}

}  // namespace attn::tools
