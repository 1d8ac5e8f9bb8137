#include "parallel/busy_threads.hpp"

#include <doctest/doctest.h>

#include "pass/partition.hpp"

using namespace attn;

TEST_CASE("part of the time in which threads work on equal items") {
  CHECK(busy_part(0, 4) == 1);
  CHECK(busy_part(1, 1) == 1);
  CHECK(busy_part(1, 4) == 0.25);
  CHECK(busy_part(4, 4) == 1);
  CHECK(busy_part(5, 4) == 0.625);
  CHECK(busy_part(12, 16) == 0.75);
}

TEST_CASE("threads take an item each, or share one, whichever keeps more of them at work") {
  const auto each = [](Index heads, Index length, int threads) {
    return take_items_each(
        heads, parts_of_problem(Order::column_panels, true, length, length, sizeof(float)),
        threads);
  };
  for (const Index length : {0, 1, 512, 4096, 100000}) {
    CAPTURE(length);
    CHECK(each(2, length, 1));
    CHECK(each(16, length, 16));
    CHECK(each(32, length, 16));
  }
  CHECK(each(12, 512, 16));   // a head has parts for few threads
  CHECK(each(2, 512, 3));     // for one thread in a gradient
  CHECK(!each(4, 8192, 16));  // for all threads
  CHECK(!each(1, 8192, 16));
  CHECK(!each(1, 8192, 2));
  CHECK(!each(1, 512, 2));  // nothing else to do for the other thread
}

TEST_CASE("a problem has parts, and none is cut more than the most") {
  for (const Index rows : {0, 1, 47, 512, 5000}) {
    for (const Index cols : {0, 1, 129, 40000}) {
      CAPTURE(rows);
      CAPTURE(cols);
      for (const Order order : {Order::row_panels, Order::column_panels}) {
        const ItemParts parts = parts_of_problem(order, false, rows, cols, sizeof(double));
        const auto of_gradients = parts_of_problem(order, true, rows, cols, sizeof(double));
        CHECK(parts.fewest >= of_gradients.fewest);
        CHECK(parts.most == of_gradients.most);
        CHECK(of_gradients.fewest >= 1);
        CHECK(parts.most >= parts.fewest);
        CHECK(parts.most >= row_tile_partition(rows, cols).slots);
      }
    }
  }
}
