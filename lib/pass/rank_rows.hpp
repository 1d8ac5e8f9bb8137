#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/ranks.hpp"
#include "pass/partition.hpp"

/// Which rows of a matrix of the size of the scores each rank (parallel/ranks.hpp) needs.
namespace attn {

/// Ranks that share the rows of passes.
struct RankRows {
  Index count = 1;
  Ranks::Rows cut = Ranks::Rows::in_turn;
};

/// The most rows that the slots of one rank have. `partition` has row panels.
Index most_rows_of_rank(const Partition& partition, const RankRows& ranks);

/// Where ranks with neighbouring rows count pairs and complete columns, they cut the rows at
/// multiples of this (RankShare::of_held_rows).
inline constexpr Index held_row_step = 64;

/// The rows that passes by row panels read on rank `rank` of `ranks` if each rank has neighbouring
/// slots: the rows of its slots in all partitions of the passes, and of its steps. Empty if there
/// are none.
RowRange neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index rank,
                           Index ranks);

/// The most neighbouring_rows that a rank has.
Index most_neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index ranks);

/// Bytes that ranks take to exchange the sums by column, in float64, of all slots of a pass by row
/// panels.
std::int64_t column_exchange_bytes(Index rows, Index cols, std::size_t element_size, Index ranks);

}  // namespace attn
