#pragma once

#include <algorithm>

#include "parallel/busy_threads.hpp"
#include "parallel/parallel_for.hpp"
#include "pass/row_selection.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

/// How every pass over tiles of scores cuts its work. The cuts follow from the shape and the type
/// only, never from the number of threads, because the bits of results depend on them. Only the
/// cuts of row_tile_partition_for affect no bits.
namespace attn {

/// row_panels: some queries × all keys at a time; column_panels: all queries × some keys.
enum class Order { row_panels, column_panels };

/// Panels of neighbouring lines, and slots of neighbouring panels. One thread at a time works
/// through the panels of a slot in order. Observers accumulate per slot and add up the slots in
/// order, so results do not depend on the number of threads.
struct Partition {
  Order order = Order::row_panels;
  Index rows = 0;
  Index cols = 0;
  Index panel = 1;  ///< lines (rows or columns) per panel
  Index panels = 0;
  Index slots = 0;

  /// Panels [first, last) of `slot`.
  Index first_panel(Index slot) const { return slots == 0 ? 0 : slot * panels / slots; }

  /// The first line of `slot`; for the slot past the last, the number of lines.
  Index first_line(Index slot) const {
    return std::min(order == Order::row_panels ? rows : cols, first_panel(slot) * panel);
  }

  /// The lines of panel `index`.
  RowRange lines(Index index) const {
    const Index all = order == Order::row_panels ? rows : cols;
    return {index * panel, std::min((index + 1) * panel, all)};
  }
};

/// Tiles of a panel run along its long axis in steps of this length.
constexpr Index pass_tile_length = 512;

/// Panels of a pass that holds one at a time, for float32 (element_size 4) or float64 (8) scores of
/// this shape.
Partition partition_of(Order order, Index rows, Index cols, std::size_t element_size);

/// Columns per tile of run_rows and of the Gibbs kernel.
constexpr Index row_tile_cols = 256;

/// A tile on the diagonal of a causal mask ends at a multiple of this, where packed products may
/// begin and sums of float32 are cut. The omitted exponentials would add zeros.
constexpr Index row_tile_step = 64;

/// Blocks of run_rows whose tiles are used once, so that nothing is kept per slot.
Partition row_tile_partition(Index rows, Index cols);

/// row_tile_partition for `threads` threads of one process. Blocks have fewer rows if the threads
/// then end closer together. This changes no bit of a row if neither causality nor a window hides
/// keys.
Partition row_tile_partition_for(int threads, Index rows, Index cols);

/// Blocks of run_rows whose tiles are kept until the rows are complete, which a Gibbs kernel and
/// observers without by_row need.
Partition row_pass_partition(Index rows, Index cols, std::size_t element_size);

/// Panels of one_pass_columns and one_pass_hybrid. `sums_rows`: false if only g is wanted.
Partition one_pass_columns_partition(Index rows, Index cols, std::size_t element_size,
                                     bool sums_rows = true);

/// Rows of a tile that one_pass_columns shows its observers at a time.
constexpr Index column_piece_rows = 96;

/// Queries per tile of a gradient's panels.
constexpr Index gradient_tile_rows = 256;

/// Panels of a gradient. `whole_columns`: a thread holds a whole panel of weights and one of
/// products, because columns are completed before they are used.
Partition gradient_partition(Index rows, Index cols, std::size_t element_size, bool whole_columns);

/// The slots of passes in this order over a problem of this shape, and of the passes of its
/// gradients.
ItemParts parts_of_problem(Order order, bool gradients, Index rows, Index cols,
                           std::size_t element_size);

/// One workspace per thread for for_each_panel (slot_share.hpp).
template <class Workspace>
PooledVector<Workspace> workspaces_for(int threads) {
  return PooledVector<Workspace>(static_cast<std::size_t>(std::max(1, threads)));
}

}  // namespace attn
