#pragma once

#include <cstdint>
#include <string>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Throws Error(memory): "one column of 8 rows needs 1.0 KiB of working memory, but --memory allows
/// 64 bytes", with the hint "--memory 2K", after what else would help.
[[noreturn]] void refuse_memory(const std::string& what, std::int64_t bytes, std::int64_t memory,
                                const std::string& else_helps = "");

/// The same if `bytes` exceeds `memory`.
void require_memory(const std::string& what, std::int64_t bytes, std::int64_t memory,
                    const std::string& else_helps = "");

/// The number of rows in memory at a time, and their memory including everything kept besides them.
struct BlockPlan {
  Index rows = 1;
  std::int64_t bytes = 0;
};

/// As many of `rows` rows of `row_bytes` each as fit into `memory` besides the `kept` bytes, but at
/// most `useful` bytes at a time, since more would not be faster. Throws Error(memory) naming
/// `what` if not even one row fits.
BlockPlan plan_blocks(const std::string& what, std::int64_t kept, std::int64_t row_bytes,
                      Index rows, std::int64_t memory,
                      std::int64_t useful = std::int64_t{16} << 20);

}  // namespace attn::tools
