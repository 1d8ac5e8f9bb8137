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

TEST_CASE("windows and padding by hand") {
  const auto none = Causal::none;
  const auto top = Causal::top_left;
  const auto bottom = Causal::bottom_right;
  CHECK(drawn(Band(3, 3, none, {}, {}), 3, 3) == "xxx xxx xxx");
  CHECK(drawn(Band(3, 3, none, 1, {}), 3, 3) == "x.. .x. ..x");
  CHECK(drawn(Band(4, 4, none, 2, {}), 4, 4) == "xx.. xxx. .xxx ..xx");
  CHECK(drawn(Band(4, 4, top, 2, {}), 4, 4) == "x... xx.. .xx. ..xx");
  CHECK(drawn(Band(2, 4, none, 2, {}), 2, 4) == "xx.. xxx.");
  CHECK(drawn(Band(2, 4, top, 2, {}), 2, 4) == "x... xx..");
  CHECK(drawn(Band(2, 4, bottom, 2, {}), 2, 4) == ".xx. ..xx");
  CHECK(drawn(Band(4, 2, none, 2, {}), 4, 2) == "xx xx .x ..");
  CHECK(drawn(Band(4, 2, bottom, 2, {}), 4, 2) == ".. .. x. xx");
  CHECK(drawn(Band(3, 3, none, {}, 2), 3, 3) == "xx. xx. xx.");
  CHECK(drawn(Band(3, 3, top, {}, 1), 3, 3) == "x.. x.. x..");
  CHECK(drawn(Band(2, 3, none, {}, 0), 2, 3) == "... ...");
  // Positions include the padding.
  CHECK(drawn(Band(2, 4, bottom, {}, 3), 2, 4) == "xxx. xxx.");
  CHECK(drawn(Band(2, 4, bottom, 2, 3), 2, 4) == ".xx. ..x.");
}

TEST_CASE("a band against its definition, its emptiness and its counts") {
  Random random(91);
  int empty = 0;
  int ranges = 0;
  for (int n = 0; n < 600; ++n) {
    const Index rows = random_size(random, 1, 60);
    const Index cols = random_size(random, 1, 60);
    const Causal causal = all_causal[n % 3];
    std::optional<Index> window;
    std::optional<Index> length;
    if (chance(random, 0.6)) window = random_size(random, 1, 70);
    if (chance(random, 0.05)) window = std::numeric_limits<Index>::max();
    if (chance(random, 0.5)) length = random_index(random, 0, cols);
    const Band band(rows, cols, causal, window, length);
    const Index first = causal == Causal::bottom_right ? cols - rows : 0;
    const auto allowed = [&](Index i, Index j) {
      const Index at = i + first;
      return (causal == Causal::none || j <= at) &&
             (!window || (at - j < *window && j - at < *window)) && (!length || j < *length);
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

TEST_CASE("an invalid window or length is refused") {
  for (const Index window : {Index{0}, Index{-3}}) {
    const Error error = thrown_error([&] { Band(2, 3, Causal::none, window, {}); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "expected at least 1"));
  }
  for (const Index length : {-1, 4}) {
    const Error error = thrown_error([&] { Band(2, 3, Causal::none, {}, length); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "expected 0 to 3"));
  }
}

TEST_CASE("a band of a million queries and keys is counted without visiting its pairs") {
  const Index length = 1000000;
  const auto energy = make_zero_energy<float>(length, length);
  Scores<float>::Terms terms;
  terms.energy = energy.get();
  terms.causal = Causal::top_left;
  terms.window = 100;
  terms.key_length = 999000;
  const AllowedCounts allowed = Scores<float>(terms).allowed_counts();
  CHECK(allowed.most_keys() == 100);
  CHECK(allowed.empty_keys() == 1000);
  CHECK(allowed.empty_queries() == 901);  // those that see only padding: 999099 to the last
}
