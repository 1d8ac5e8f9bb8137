#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// How the attention of one head is spread over its keys, as sums of column sums: divided by
/// `total`, they are shares.
struct AttentionShares {
  double total = 0;          ///< Σ_j c_j
  double first = 0;          ///< of the first key that some query may attend to
  std::vector<double> most;  ///< of the counts[n] keys with the greatest column sums

  /// Adds the sums of another head with the same counts.
  void add(const AttentionShares& more);
};

/// `sums` and `masked` as for summarise (stats/summary.hpp); `counts` are ≥ 1.
AttentionShares attention_shares(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                 const std::vector<Index>& counts);

}  // namespace attn
