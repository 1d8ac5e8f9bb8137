#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/ranks.hpp"
#include "pass/partition.hpp"

/// What each of several ranks (kernel/ranks.hpp) needs of a matrix of the size of the scores.
namespace attn {

/// Ranks that share the rows of passes.
struct RankRows {
  Index count = 1;
  kernel::Ranks::Rows cut = kernel::Ranks::Rows::in_turn;
};

/// The most rows that the slots of one rank have. `partition` has row panels.
Index most_rows_of_rank(const Partition& partition, const RankRows& ranks);

/// Ranks with neighbouring rows also cut them at multiples of this (RankShare::of_held_rows) where
/// they count pairs and complete columns.
inline constexpr Index held_row_step = 64;

/// The rows that passes by row panels read on rank `rank` of `ranks` if it has neighbouring slots:
/// those of its slots in all of their partitions, and of its steps. Empty if it has none.
RowRange neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index rank,
                           Index ranks);

/// The most of these that a rank has.
Index most_neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index ranks);

/// Bytes that ranks take to exchange sums by column, in float64, of each slot of a pass by row
/// panels.
std::int64_t column_exchange_bytes(Index rows, Index cols, std::size_t element_size, Index ranks);

}  // namespace attn
