#include "pass/partition.hpp"

namespace attn {
namespace {

constexpr Index mib = Index{1} << 20;

Partition panels_of(Order order, Index rows, Index cols, Index panel) {
  Partition partition;
  partition.order = order;
  partition.rows = rows;
  partition.cols = cols;
  partition.panel = panel;
  const Index lines = order == Order::row_panels ? rows : cols;
  partition.panels = (lines + panel - 1) / panel;
  return partition;
}

// Halves `panel` lines until they take at most `bytes`, or `fewest` are left.
Index lines_within(Index panel, Index fewest, Index line_bytes, Index bytes) {
  while (panel > fewest && panel * line_bytes > bytes) panel /= 2;
  return panel;
}

// A tile of scores with its keys and values should stay in the second-level cache. The bits of a
// row depend only on the columns of its tiles.
constexpr Index register_rows = 6;  // of the products' tile
constexpr Index row_tile_rows = 16 * register_rows;

Partition row_tiles(Index rows, Index cols, Index tile_rows) {
  constexpr Index most_slots = 1024;
  Partition partition = panels_of(Order::row_panels, rows, cols, tile_rows);
  partition.slots = std::min(most_slots, partition.panels);
  return partition;
}

}  // namespace

// A panel is kept whole between its products, its maxima, its exponentials and its observers, so it
// should fit a second-level cache; more lines make the products faster. Beyond that size it goes
// through memory anyway, and only the memory that a thread may hold limits it.
Partition partition_of(Order order, Index rows, Index cols, std::size_t element_size) {
  constexpr Index cached_bytes = mib;
  constexpr Index held_bytes = 32 * mib;
  constexpr Index most_lines = 128;
  constexpr Index usual_lines = 64;
  constexpr Index fewest_lines = 8;
  const Index length = std::max<Index>(1, order == Order::row_panels ? cols : rows);
  const Index line_bytes = length * static_cast<Index>(element_size);
  Index panel = most_lines;
  if (panel * line_bytes > cached_bytes) panel = usual_lines;
  Partition partition =
      panels_of(order, rows, cols, lines_within(panel, fewest_lines, line_bytes, held_bytes));

  // Observers hold a vector along the other axis per slot.
  constexpr Index slot_vector_bytes = 32 * mib;
  constexpr Index most_slots = 64;
  constexpr Index fewest_slots = 8;
  const Index affordable = slot_vector_bytes / (length * static_cast<Index>(sizeof(double)));
  partition.slots = std::min(std::clamp(affordable, fewest_slots, most_slots), partition.panels);
  return partition;
}

Partition row_tile_partition(Index rows, Index cols) {
  return row_tiles(rows, cols, row_tile_rows);
}

Partition row_tile_partition_for(int threads, Index rows, Index cols) {
  constexpr Index fewest_rows = 48;
  constexpr double cost_of_fewer_rows = 0.08;  // of the time, as seen
  const Partition usual = row_tile_partition(rows, cols);
  const Index rounds = (usual.panels + threads - 1) / threads;
  const Index of_thread = (rows + threads * rounds - 1) / std::max<Index>(1, threads * rounds);
  const Index even = (of_thread + register_rows - 1) / register_rows * register_rows;
  if (even < fewest_rows || even >= usual.panel) return usual;
  // The time of a block is proportional to its rows.
  const auto rows_of_thread = [&](Index tile_rows) {
    return static_cast<double>(std::min(rows, rounds * tile_rows));
  };
  const bool worth_it =
      rows_of_thread(even) < (1 - cost_of_fewer_rows) * rows_of_thread(usual.panel);
  return worth_it ? row_tiles(rows, cols, even) : usual;
}

// Blocks that fit the second-level cache at a few thousand keys, have a multiple of six rows, and
// never exceed what a thread may hold.
Partition row_pass_partition(Index rows, Index cols, std::size_t element_size) {
  constexpr Index usual_rows = 48;
  constexpr Index fewest_rows = 8;
  constexpr Index held_bytes = 16 * mib;
  const Index line_bytes = std::max<Index>(1, cols) * static_cast<Index>(element_size);
  Partition partition = panels_of(Order::row_panels, rows, cols,
                                  lines_within(usual_rows, fewest_rows, line_bytes, held_bytes));
  // Observers hold a vector along the keys per slot.
  partition.slots =
      std::min(partition.panels, partition_of(Order::row_panels, rows, cols, element_size).slots);
  return partition;
}

// A panel of exponentials is written and read once, while results by row are read and written for
// every panel: a few wide panels are cheaper as long as all threads' panels stay in the last-level
// cache.
Partition one_pass_columns_partition(Index rows, Index cols, std::size_t element_size,
                                     bool sums_rows) {
  constexpr Index usual_lines = 128;
  constexpr Index most_lines = 256;
  constexpr Index short_rows = 1024;
  constexpr Index held_bytes = 4 * mib;
  constexpr Index held_bytes_without_rows = 8 * mib;
  const Index length = std::max<Index>(1, rows);
  const Index line_bytes = length * static_cast<Index>(element_size);
  const Index wide_bytes = sums_rows ? held_bytes : held_bytes_without_rows;
  Index panel = partition_of(Order::column_panels, rows, cols, element_size).panel;
  if (line_bytes * most_lines <= wide_bytes && rows > short_rows) {
    panel = most_lines;
  } else if (line_bytes * usual_lines <= held_bytes) {
    panel = usual_lines;
  }
  Partition partition = panels_of(Order::column_panels, rows, cols, panel);

  // Enough for the ranks of a large machine; fewer for a small problem, because the sums of a slot
  // are added to those before it.
  constexpr Index most_slots = 64;
  const Index few = std::clamp<Index>(partition.panels / 2, 1, most_slots);
  partition.slots = partition.panels < most_slots ? std::min(few, partition.panels) : most_slots;
  return partition;
}

Partition gradient_partition(Index rows, Index cols, std::size_t element_size, bool whole_columns) {
  constexpr Index panel_keys = 128;
  constexpr Index fewest_keys = 8;
  constexpr Index held_bytes = 64 * mib;
  const Index line_bytes = 2 * rows * static_cast<Index>(element_size);
  const Index panel =
      whole_columns ? lines_within(panel_keys, fewest_keys, line_bytes, held_bytes) : panel_keys;
  Partition partition = panels_of(Order::column_panels, rows, cols, panel);

  // A slot clears and adds its lane's sums by query once; this many keys outweigh that cost.
  constexpr Index slot_keys = 512;
  constexpr Index most_slots = 32;
  partition.slots = std::clamp<Index>((cols + slot_keys - 1) / slot_keys, 1, most_slots);
  return partition;
}

ItemParts parts_of_problem(Order order, bool gradients, Index rows, Index cols,
                           std::size_t element_size) {
  Index fewest = order == Order::row_panels
                     ? partition_of(order, rows, cols, element_size).slots
                     : one_pass_columns_partition(rows, cols, element_size).slots;
  if (gradients) {
    fewest = std::min(fewest, gradient_partition(rows, cols, element_size, false).slots);
  }
  ItemParts parts{.fewest = std::max<Index>(1, fewest)};
  for (const Partition& partition :
       {partition_of(Order::row_panels, rows, cols, element_size),
        partition_of(Order::column_panels, rows, cols, element_size),
        row_tile_partition(rows, cols), row_pass_partition(rows, cols, element_size),
        one_pass_columns_partition(rows, cols, element_size),
        gradient_partition(rows, cols, element_size, false),
        gradient_partition(rows, cols, element_size, true)}) {
    parts.most = std::max(parts.most, partition.slots);
  }
  return parts;
}

}  // namespace attn
