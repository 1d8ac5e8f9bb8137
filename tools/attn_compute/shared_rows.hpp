#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/gathered_rows.hpp"
#include "gradient/shared_sums.hpp"
#include "pass/partition.hpp"

namespace attn::tools {

/// The gradient of an operand whose blocks several heads share, if ranks divide the memory of
/// heads: the numbers of SharedSums, of which each rank has those of some rows, whatever the heads.
/// All ranks call all functions in the same order.
template <class T>
class SharedRows {
 public:
  /// Blocks are (rows, cols), and problem n uses number block_of[n] of `blocks`.
  SharedRows(kernel::Ranks& ranks, const std::vector<Index>& block_of, Index blocks, Index rows,
             Index cols);

  /// Takes rows of the part of the next head; those that do not come are 0.
  void take(const GatheredRows<T>& rows);

  /// The same for rows that every rank has.
  void take_own(Index first, Index count, const T* numbers);

  /// Those of the part that this rank adds.
  std::span<const T> own_part() const {
    return {part_.data(), static_cast<std::size_t>(part_.size())};
  }

  /// After all rows of a head: adds its part, and if it is the last one of its block, shows the
  /// gradient of the block.
  void end_head(Index problem, const ShowRows<T>& show);

  /// Bytes that a rank has with up to `open` sums at a time.
  static std::int64_t bytes(Index rows, Index cols, Index open, Index ranks);

 private:
  RowRange own_rows(int rank) const;

  kernel::Ranks& ranks_;
  SharedSums<T> sums_;
  Index rows_;
  Index cols_;
  Buffer<T> part_;  // of the own rows
};

}  // namespace attn::tools
