#include "common/costs/block_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {

void refuse_memory(const std::string& what, std::int64_t bytes, std::int64_t memory,
                   const std::string& else_helps) {
  const bool small = bytes < (std::int64_t{1} << 20);
  throw Error(
      Failure::memory,
      fmt::format("{} needs {} of working memory, but --memory allows {}", what,
                  bytes_text(static_cast<double>(bytes)), bytes_text(static_cast<double>(memory))),
      else_helps +
          fmt::format("--memory {}{}", (bytes >> (small ? 10 : 20)) + 1, small ? 'K' : 'M'));
}

void require_memory(const std::string& what, std::int64_t bytes, std::int64_t memory,
                    const std::string& else_helps) {
  if (bytes > memory) refuse_memory(what, bytes, memory, else_helps);
}

BlockPlan plan_blocks(const std::string& what, std::int64_t kept, std::int64_t row_bytes,
                      Index rows, std::int64_t memory, std::int64_t useful) {
  require_memory(what, kept + row_bytes, memory);
  const std::int64_t room = std::min(memory - kept, useful);
  BlockPlan plan;
  plan.rows = std::clamp<Index>(room / row_bytes, 1, std::max<Index>(1, rows));
  plan.bytes = kept + plan.rows * row_bytes;
  return plan;
}

}  // namespace attn::tools
