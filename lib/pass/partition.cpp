#include <algorithm>

#include "pass/pass.hpp"

namespace attn {
namespace {

// A panel is kept whole between its products, its maxima, its exponentials and its observers, so it
// should fit a second-level cache; more lines make the products faster. Beyond that size it goes
// through memory anyway, and only the memory that a thread may hold limits it.
constexpr Index cached_bytes = Index{1} << 20;
constexpr Index held_bytes = Index{32} << 20;
constexpr Index most_lines = 128;
constexpr Index usual_lines = 64;
constexpr Index fewest_lines = 8;

// Observers hold a vector along the other axis per slot.
constexpr Index slot_vector_bytes = Index{32} << 20;
constexpr Index most_slots = 64;
constexpr Index fewest_slots = 8;

}  // namespace

Partition partition_of(Order order, Index rows, Index cols, std::size_t element_size) {
  Partition partition;
  partition.order = order;
  partition.rows = rows;
  partition.cols = cols;
  const Index lines = order == Order::row_panels ? rows : cols;
  const Index length = std::max<Index>(1, order == Order::row_panels ? cols : rows);
  const Index line_bytes = length * static_cast<Index>(element_size);

  partition.panel = most_lines;
  if (partition.panel * line_bytes > cached_bytes) partition.panel = usual_lines;
  while (partition.panel > fewest_lines && partition.panel * line_bytes > held_bytes) {
    partition.panel /= 2;
  }
  partition.panels = (lines + partition.panel - 1) / partition.panel;

  const Index affordable = slot_vector_bytes / (length * static_cast<Index>(sizeof(double)));
  const Index slots = std::clamp(affordable, fewest_slots, most_slots);
  partition.slots = std::min(slots, partition.panels);
  return partition;
}

}  // namespace attn
