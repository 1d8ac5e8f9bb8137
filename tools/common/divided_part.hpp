#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/divided_plan.hpp"

namespace attn::tools {

/// The most that a rank has of any head.
struct LargestPart {
  Index lines = 0;
  Index slots = 0;
  Index panel = 0;  ///< lines of a panel
};

/// Of the heads of an input that ranks cut by the slots of a partition (cut_slots).
LargestPart largest_part(const AttentionInput& input, Scheme scheme, Index ranks,
                         const std::function<Partition(Index queries, Index keys)>& partition_of);

/// Bytes of q and out of a query, or of k and v of a key.
std::int64_t line_bytes(const AttentionInput& input, std::size_t element_size);

}  // namespace attn::tools
