#include "score/band.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "random_problem.hpp"
#include "score/scores.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

std::string drawn(const Band& band, Index rows, Index cols) {
  std::string text;
  for (Index i = 0; i < rows; ++i) {
    if (i > 0) text += ' ';
    for (Index j = 0; j < cols; ++j) text += band.begin(i) <= j && j < band.end(i) ? 'x' : '.';
  }
  return text;
}

}  // namespace

TEST_CASE("windows and offsets by hand") {
  const auto band = [](Index rows, Index cols, bool causal, Window window, Index offset) {
    return drawn(Band(rows, cols, {causal, window, offset}), rows, cols);
  };
  const auto near = Window::nearer_than;
  CHECK(band(3, 3, false, {}, 0) == "xxx xxx xxx");
  CHECK(band(3, 3, true, {}, 0) == "x.. xx. xxx");
  CHECK(band(3, 3, false, near(1), 0) == "x.. .x. ..x");
  CHECK(band(4, 4, false, near(2), 0) == "xx.. xxx. .xxx ..xx");
  CHECK(band(4, 4, true, near(2), 0) == "x... xx.. .xx. ..xx");
  CHECK(band(2, 4, false, near(2), 0) == "xx.. xxx.");
  CHECK(band(2, 4, true, near(2), 0) == "x... xx..");
  CHECK(band(2, 4, true, near(2), 2) == ".xx. ..xx");
  CHECK(band(4, 2, false, near(2), 0) == "xx xx .x ..");
  CHECK(band(4, 2, true, near(2), -2) == ".. .. x. xx");
  CHECK(band(3, 4, false, {1, 0}, 0) == "x... xx.. .xx.");
  CHECK(band(3, 4, false, {0, 2}, 0) == "xxx. .xxx ..xx");
  CHECK(band(3, 4, false, {{}, 1}, 0) == "xx.. xxx. xxxx");
  CHECK(band(3, 4, false, {1, {}}, 1) == "xxxx .xxx ..xx");
  CHECK(band(2, 4, true, {0, 3}, 1) == ".x.. ..x.");
  CHECK(band(2, 3, true, {}, 100) == "xxx xxx");
  CHECK(band(2, 3, true, {}, -100) == "... ...");
}

TEST_CASE("a band against its definition, its emptiness and its counts") {
  Random random(91);
  int empty = 0;
  int ranges = 0;
  for (int n = 0; n < 600; ++n) {
    const Index rows = random_size(random, 1, 60);
    const Index cols = random_size(random, 1, 60);
    BandRule rule;
    rule.causal = n % 3 > 0;
    rule.offset = n % 3 == 2 ? cols - rows : random_index(random, -20, 20);
    if (chance(random, 0.6)) rule.window.left = random_index(random, 0, 70);
    if (chance(random, 0.6)) rule.window.right = random_index(random, 0, 70);
    if (chance(random, 0.05)) rule.window.left = std::numeric_limits<Index>::max();
    const Band band(rows, cols, rule);
    const auto allowed = [&](Index i, Index j) {
      const Index at = i + rule.offset;
      return (!rule.causal || j <= at) && (!rule.window.left || at - j <= *rule.window.left) &&
             (!rule.window.right || j - at <= *rule.window.right);
    };
    AllowedCounts want;
    want.keys_of_query.assign(static_cast<std::size_t>(rows), 0);
    want.queries_of_key.assign(static_cast<std::size_t>(cols), 0);
    bool same = true;
    bool all = true;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const bool may = allowed(i, j);
        same = same && may == (band.begin(i) <= j && j < band.end(i));
        all = all && may;
        want.keys_of_query[static_cast<std::size_t>(i)] += may ? 1 : 0;
        want.queries_of_key[static_cast<std::size_t>(j)] += may ? 1 : 0;
      }
    }
    CAPTURE(n);
    CHECK(same);
    CHECK((!band.whole() || all));
    CHECK(band.allowed_counts().keys_of_query == want.keys_of_query);
    CHECK(band.allowed_counts().queries_of_key == want.queries_of_key);
    for (int repeat = 0; repeat < 10; ++repeat, ++ranges) {
      TileRange range;
      range.row0 = random_index(random, 0, rows - 1);
      range.rows = random_index(random, 0, std::min<Index>(9, rows - range.row0));
      range.col0 = random_index(random, 0, cols - 1);
      range.cols = random_index(random, 0, std::min<Index>(9, cols - range.col0));
      bool any = false;
      Index in_use = 0;
      for (Index j = range.col0; j < range.col0 + range.cols; ++j) {
        for (Index i = range.row0; i < range.row0 + range.rows; ++i) {
          if (!allowed(i, j)) continue;
          any = true;
          in_use = j + 1 - range.col0;
        }
      }
      CHECK(band.empty(range) == !any);
      CHECK(band.cols_in_use(range) >= in_use);
      if (any) CHECK(band.cols_in_use(range) == in_use);
      empty += any ? 0 : 1;
    }
  }
  CHECK(empty > ranges / 10);
  CHECK(empty < ranges * 9 / 10);
}

TEST_CASE("an invalid window or offset is refused") {
  const Error window = thrown_error([&] { Band(2, 3, {false, {{}, -1}, 0}); });
  CHECK(window.failure() == Failure::input);
  CHECK(contains(window.what(), "expected at least 0"));
  const Error offset = thrown_error([&] { Band(2, 3, {true, {}, Index{1} << 60}); });
  CHECK(offset.failure() == Failure::input);
  CHECK(contains(offset.what(), "expected at most 2^50"));
}

TEST_CASE("a band of a million queries and keys is counted without visiting its pairs") {
  const Index length = 1000000;
  const auto energy = make_zero_energy<float>(length, length);
  Scores<float>::Terms terms;
  terms.energy = energy.get();
  terms.band = {true, Window::nearer_than(100), -1000};
  const AllowedCounts allowed = Scores<float>(terms).allowed_counts();
  CHECK(allowed.most_keys() == 100);
  CHECK(allowed.empty_keys() == 1000);
  CHECK(allowed.empty_queries() == 1000);
}
