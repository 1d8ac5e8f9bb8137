#include "shared/heads.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "scheme/pass.hpp"
#include "shared/bundles.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

// Enough work per batch to keep the threads busy between two rounds of reading and writing.
constexpr Index panels_per_thread = 32;

}  // namespace

MemoryPlan plan_memory(const AttentionInput& input, std::size_t element_size,
                       const HeadNeeds& needs, int threads, std::int64_t memory) {
  for (const io::InputDataset& dataset : input.datasets()) require_readable(dataset, memory);
  MemoryPlan plan;
  const auto bytes = [&] {
    return input.head_bytes(element_size, plan.dense_limit) + needs.result_bytes +
           needs.kept_bytes + needs.work_bytes(plan.threads, plan.dense_limit);
  };
  plan.threads = threads;
  plan.dense_limit = memory / 8;
  if (bytes() > memory) plan.dense_limit = 0;
  while (bytes() > memory && plan.threads > 1) --plan.threads;
  plan.bytes = bytes();
  if (plan.bytes > memory) {
    throw Error(Failure::memory,
                fmt::format("one head of {} queries and {} keys needs {} of working memory, "
                            "--memory allows {}",
                            input.queries, input.keys, bytes_text(static_cast<double>(plan.bytes)),
                            bytes_text(static_cast<double>(memory))),
                fmt::format("--memory {}M", (plan.bytes >> 20) + 1));
  }
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  const Index busy = (panels_per_thread * plan.threads + partition.panels - 1) / partition.panels;
  const std::int64_t per_head =
      input.head_bytes(element_size, plan.dense_limit) + needs.result_bytes;
  const Index affordable = 1 + (memory - plan.bytes) / std::max<std::int64_t>(1, per_head);
  plan.batch = std::clamp<Index>(std::min(busy, affordable), 1, input.problems);
  plan.bytes += (plan.batch - 1) * per_head;
  return plan;
}

}  // namespace attn::tools
