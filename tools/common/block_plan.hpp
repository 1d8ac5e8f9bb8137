#pragma once

#include <cstdint>
#include <string>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Throws Error(memory): "one column of 8 rows needs 1.0 KiB of working memory, --memory allows 64
/// bytes", with a hint.
[[noreturn]] void refuse_memory(const std::string& what, std::int64_t bytes, std::int64_t memory);

/// The same where `what` needs more than is allowed.
void require_memory(const std::string& what, std::int64_t bytes, std::int64_t memory);

/// Rows that are in memory at a time, and what they take with all that is held beside them.
struct BlockPlan {
  Index rows = 1;
  std::int64_t bytes = 0;
};

/// As many of `rows`, `row_bytes` each, as fit into `memory` with what is `kept`: more than
/// `useful` bytes of them at a time would be no faster. Throws Error(memory) naming `what` where
/// not even one fits.
BlockPlan plan_blocks(const std::string& what, std::int64_t kept, std::int64_t row_bytes,
                      Index rows, std::int64_t memory,
                      std::int64_t useful = std::int64_t{16} << 20);

}  // namespace attn::tools
