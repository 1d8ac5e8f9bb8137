#include "common/shards/problem_share.hpp"

#include <doctest/doctest.h>

#include "attnkit/error.hpp"
#include "common/outputs/block_layout.hpp"

using namespace attn;
using namespace attn::tools;

using Problems = std::vector<Index>;

TEST_CASE("problems that add into one result are one unit") {
  ProblemUnits units(6);
  CHECK(units.units().size() == 6);
  CHECK(units.summed().empty());
  units.sum("apart", {5, 4, 3, 2, 1, 0});
  CHECK(units.units().size() == 6);
  units.sum("pairs", {0, 0, 1, 1, 2, 2});
  CHECK(units.units() == std::vector<Problems>{{0, 1}, {2, 3}, {4, 5}});
  units.sum("ends", {0, 1, 2, 3, 4, 0});
  CHECK(units.units() == std::vector<Problems>{{0, 1, 4, 5}, {2, 3}});
  CHECK(units.summed() == "pairs and ends");
  units.sum("all", {0, 0, 0, 0, 0, 0});
  CHECK(units.units() == std::vector<Problems>{{0, 1, 2, 3, 4, 5}});
  CHECK(units.summed() == "all");
}

TEST_CASE("a shard has whole units, and each unit is in one shard") {
  ProblemUnits units(10);
  units.sum("modulo", {0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
  const std::vector<double> work = {9, 1, 1, 1, 1, 9, 1, 1, 1, 1};
  CHECK(own_problems(units, work, {1, 2}) == Problems{0, 5});
  CHECK(own_problems(units, work, {2, 2}) == Problems{1, 2, 3, 4, 6, 7, 8, 9});
  Problems all;
  for (Index number = 1; number <= 64; ++number) {
    const Problems own = own_problems(units, work, {number, 64});
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == Problems{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("blocks that own problems use") {
  const ProblemShare share(6, {1, 4, 5});
  CHECK(share.blocks({0, 2, 0, 2, 1, 1}) == Problems{1, 2});
  CHECK(share.size() == 3);
  CHECK(share.problem(1) == 4);
}

TEST_CASE("a block lies where its position says") {
  const BlockLayout inside{.name = "out", .shape = {2, 20, 3, 5}, .axes = {0, 2}};
  CHECK(inside.positions() == Shape{2, 3});
  CHECK(inside.own() == Shape{20, 5});
  const BlockBox box = box_of(inside, 4);
  CHECK(box.start == Shape{1, 0, 1, 0});
  CHECK(box.count == Shape{1, 20, 1, 5});
  const BlockBox scalar = box_of({.name = "u", .shape = {}}, 0);
  CHECK(scalar.start.empty());
  CHECK(scalar.count.empty());
}

TEST_CASE("ranges of numbers") {
  CHECK(ranges_text({}).empty());
  CHECK(ranges_text({0, 1, 2, 7, 9, 10}) == "0:3,7:8,9:11");
  CHECK(parse_ranges("", 0).empty());
  CHECK(parse_ranges("0:3,7:8,9:11", 11) == Problems{0, 1, 2, 7, 9, 10});
  CHECK(count_in_ranges("", 0) == 0);
  CHECK(count_in_ranges("0:3,7:8,9:11", 11) == 6);
  CHECK(count_in_ranges("0:1000000000000000000", 2'000'000'000'000'000'000) ==
        1'000'000'000'000'000'000);
  for (const char* const wrong : {"0", "0:", ":3", "3:3", "3:2", "0:12", "0:3,", "0:3,2:4", "-1:3",
                                  "0:3;5:6", "0:99999999999999999999", "a:b"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(count_in_ranges(wrong, 11), Error);
  }
}
