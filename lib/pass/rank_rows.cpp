#include "pass/rank_rows.hpp"

#include <algorithm>

#include "parallel/rank_share.hpp"

namespace attn {
namespace {

RowRange neighbouring_rows(const Partition& partition, Index rank, Index ranks) {
  return {partition.first_line(first_neighbour(partition.slots, rank, ranks)),
          partition.first_line(first_neighbour(partition.slots, rank + 1, ranks))};
}

}  // namespace

Index most_rows_of_rank(const Partition& partition, const RankRows& ranks) {
  Index most = 0;
  for (Index rank = 0; rank < ranks.count; ++rank) {
    Index rows = 0;
    if (ranks.cut == Ranks::Rows::neighbouring) {
      const RowRange own = neighbouring_rows(partition, rank, ranks.count);
      rows = own.last - own.first;
    } else {
      for (Index slot = rank; slot < partition.slots; slot += ranks.count) {
        rows += partition.first_line(slot + 1) - partition.first_line(slot);
      }
    }
    most = std::max(most, rows);
  }
  return most;
}

RowRange neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index rank,
                           Index ranks) {
  RowRange found;
  Partition steps{.rows = rows, .cols = cols, .panel = held_row_step};
  steps.panels = steps.slots = (rows + held_row_step - 1) / held_row_step;
  for (const Partition& partition : {steps, row_pass_partition(rows, cols, element_size),
                                     partition_of(Order::row_panels, rows, cols, element_size),
                                     row_tile_partition(rows, cols)}) {
    const RowRange own = neighbouring_rows(partition, rank, ranks);
    if (own.first == own.last) continue;
    if (found.first == found.last) found = own;
    found = {std::min(found.first, own.first), std::max(found.last, own.last)};
  }
  return found;
}

Index most_neighbouring_rows(Index rows, Index cols, std::size_t element_size, Index ranks) {
  Index most = 0;
  for (Index rank = 0; rank < ranks; ++rank) {
    const RowRange own = neighbouring_rows(rows, cols, element_size, rank, ranks);
    most = std::max(most, own.last - own.first);
  }
  return most;
}

std::int64_t column_exchange_bytes(Index rows, Index cols, std::size_t element_size, Index ranks) {
  const std::int64_t slot = cols * static_cast<std::int64_t>(sizeof(double));
  const Index slots = partition_of(Order::row_panels, rows, cols, element_size).slots;
  return std::min(slots * slot, ranks * (RankShare::exchanged_bytes + slot));
}

}  // namespace attn
