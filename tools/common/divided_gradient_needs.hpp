#pragma once

#include <cstddef>
#include <cstdint>

#include "common/divided_part.hpp"

namespace attn::tools {

/// The memory that a rank needs for its part of the gradients of a head (DividedGradient). Without
/// gradients all is 0.
class DividedGradientNeeds {
 public:
  /// All must outlive it. `rows`: the most queries whose output a rank has.
  DividedGradientNeeds(const AttentionInput& input, const DividedWants& wants,
                       std::size_t element_size, Index ranks, Index rows);

  /// Bytes of a query in a block.
  std::int64_t query_bytes() const;

  /// Additional bytes of the forward run when gradients follow, in blocks of `block` lines:
  /// gradients of the output that are read with them, and own rows that are kept.
  std::int64_t forward_bytes(Index block) const;

  /// Bytes of the gradients themselves, with blocks of `block` queries.
  std::int64_t bytes(Index block, int threads) const;

 private:
  bool is_mixture() const { return wants_.scheme == Scheme::hnas; }
  std::int64_t element() const { return static_cast<std::int64_t>(element_size_); }
  std::int64_t delta_bytes(Index block, int threads) const;
  std::int64_t kept_bytes() const;
  std::int64_t own_bytes(Index block, int threads) const;
  std::int64_t gated_bytes(Index block) const;
  EnergySizes sizes(Index queries, Index keys) const;
  std::int64_t energy_bytes(Index queries, Index keys) const;
  std::int64_t sink_bytes(Index block) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  std::size_t element_size_;
  LargestPart keys_;
  Index rows_ = 0;
};

}  // namespace attn::tools
