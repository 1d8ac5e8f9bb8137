#include <doctest/doctest.h>

#include "pass/pass.hpp"
#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

void check_partition(Order order, Index rows, Index cols, std::size_t element_size) {
  const Partition p = partition_of(order, rows, cols, element_size);
  const bool by_row = order == Order::row_panels;
  const Index lines = by_row ? rows : cols;
  const Index length = by_row ? cols : rows;
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(by_row);
  CAPTURE(element_size);
  CHECK(p.order == order);
  CHECK(p.rows == rows);
  CHECK(p.cols == cols);

  // The panels cover all lines, and the last one is not empty.
  CHECK(p.panel >= 1);
  CHECK(p.panels * p.panel >= lines);
  CHECK((p.panels - 1) * p.panel < lines);

  // The slots cover all panels, none of them empty.
  CHECK(p.slots <= p.panels);
  CHECK((p.slots > 0) == (lines > 0));
  if (p.slots > 0) {
    CHECK(p.first_panel(0) == 0);
    CHECK(p.first_panel(p.slots) == p.panels);
    Index shortest = p.panels;
    for (Index slot = 0; slot < p.slots; ++slot) {
      shortest = std::min(shortest, p.first_panel(slot + 1) - p.first_panel(slot));
    }
    CHECK(shortest >= 1);
  }

  // Memory per thread: 32 MiB, or as few lines as products need.
  constexpr Index mebi = Index{1} << 20;
  CHECK((p.panel * length * static_cast<Index>(element_size) <= 32 * mebi || p.panel == 8));
  CHECK(p.panel <= 128);
  // Memory of observers, a float64 along the other axis for each slot: 32 MiB, or eight slots.
  CHECK((p.slots * length * 8 <= 32 * mebi || p.slots <= 8));
  // Enough slots to keep threads busy if there is enough work.
  CHECK(p.slots >= std::min<Index>(8, p.panels));
}

}  // namespace

TEST_CASE("partitions of random shapes up to 1e6 x 1e6") {
  Random random(91);
  for (int n = 0; n < 3000; ++n) {
    const Index rows = chance(random, 0.03) ? 0 : random_size(random, 1, 1000000);
    const Index cols = chance(random, 0.03) ? 0 : random_size(random, 1, 1000000);
    for (const std::size_t size : {sizeof(float), sizeof(double)}) {
      check_partition(Order::row_panels, rows, cols, size);
      check_partition(Order::column_panels, rows, cols, size);
    }
  }
  check_partition(Order::row_panels, 1000000, 1000000, 8);
  check_partition(Order::column_panels, 1000000, 1000000, 8);
}

TEST_CASE("a partition by columns equals that of the transposed shape by rows") {
  Random random(92);
  for (int n = 0; n < 300; ++n) {
    const Index rows = random_size(random, 1, 1000000);
    const Index cols = random_size(random, 1, 1000000);
    const Partition a = partition_of(Order::row_panels, rows, cols, 4);
    const Partition b = partition_of(Order::column_panels, cols, rows, 4);
    CHECK(a.panel == b.panel);
    CHECK(a.panels == b.panels);
    CHECK(a.slots == b.slots);
  }
}

TEST_CASE("scratch memory of a pass") {
  for (const Order order : {Order::row_panels, Order::column_panels}) {
    const Partition p = partition_of(order, 5000, 7000, 4);
    const Index length = order == Order::row_panels ? 7000 : 5000;
    const std::int64_t panel = p.panel * length * 4;
    const std::int64_t one = pass_bytes(order, 5000, 7000, 1, 4, 1);
    CHECK(one >= panel + 8 * 12000);
    CHECK(one <= 2 * (panel + 8 * 12000) + (1 << 20));
    // Each further thread and each further part of a mixture takes a panel of its own.
    CHECK(pass_bytes(order, 5000, 7000, 1, 4, 3) >= one + 2 * panel);
    CHECK(pass_bytes(order, 5000, 7000, 2, 4, 1) >= one + panel);
    // Threads beyond the number of slots are useless and take no memory.
    CHECK(pass_bytes(order, 5000, 7000, 1, 4, 1000) ==
          pass_bytes(order, 5000, 7000, 1, 4, static_cast<int>(p.slots)));
  }
}

TEST_CASE("blocks of rows for some threads: of all rows, no larger than usual, and more even") {
  for (const Index rows : {0, 1, 47, 96, 97, 100, 511, 2048, 5000, 300000}) {
    for (const int threads : {1, 2, 3, 16, 64}) {
      CAPTURE(rows);
      CAPTURE(threads);
      const Partition usual = row_tile_partition(rows, 100);
      const Partition even = row_tile_partition_for(threads, rows, 100);
      CHECK(even.panel <= usual.panel);
      CHECK(even.slots <= 1024);
      CHECK(even.first_line(even.slots) == rows);
      const auto longest = [&](const Partition& blocks) {
        return std::min(rows, (blocks.panels + threads - 1) / threads * blocks.panel);
      };
      if (threads == 1) CHECK(even.panel == usual.panel);
      if (even.panel == usual.panel) continue;
      CHECK(even.panel % 6 == 0);  // rows of a register tile
      CHECK(even.panel >= 48);
      CHECK(static_cast<double>(longest(even)) < 0.92 * static_cast<double>(longest(usual)));
    }
  }
  CHECK(row_tile_partition_for(16, 2048, 100).panel == 66);  // 32 blocks, where 22 were
}
