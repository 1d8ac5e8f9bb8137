#include "score/band.hpp"

#include <doctest/doctest.h>

#include <algorithm>
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

// S + 1 numbers from 0 to `total` that never fall.
std::vector<Index> random_starts(Random& random, Index sequences, Index total) {
  std::vector<Index> starts = {0, total};
  for (Index s = 1; s < sequences; ++s) starts.push_back(random_index(random, 0, total));
  std::sort(starts.begin(), starts.end());
  return starts;
}

// The last sequence that begins at or before a place, among those that are not empty.
std::size_t sequence_at(const std::vector<Index>& starts, Index place) {
  std::size_t s = 0;
  while (starts[s + 1] <= place) ++s;
  return s;
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

TEST_CASE("a packing against its definition, chunks of queries included") {
  Random random(92);
  int empty = 0;
  int ranges = 0;
  for (int n = 0; n < 600; ++n) {
    const Index rows = random_size(random, 1, 40);
    const Index first = random_index(random, 0, 20);
    const Index queries = first + rows + random_index(random, 0, 20);
    const Index cols = random_size(random, 1, 60);
    const Index sequences = random_index(random, 1, 9);
    const std::vector<Index> of_queries = random_starts(random, sequences, queries);
    const std::vector<Index> of_keys = random_starts(random, sequences, cols);
    const Packing packing(of_queries, of_keys,
                          n % 3 == 2 ? Causal::bottom_right : Causal::top_left);
    BandRule rule;
    rule.causal = n % 3 > 0;
    rule.packing = &packing;
    rule.first_query = first;
    if (chance(random, 0.6)) rule.window.left = random_index(random, 0, 70);
    if (chance(random, 0.6)) rule.window.right = random_index(random, 0, 70);
    const Band band(rows, cols, rule);
    CHECK(!band.whole());
    const auto allowed = [&](Index row, Index j) {
      const Index i = first + row;
      const std::size_t s = sequence_at(of_queries, i);
      if (s != sequence_at(of_keys, j)) return false;
      const Index lengths = (of_keys[s + 1] - of_keys[s]) - (of_queries[s + 1] - of_queries[s]);
      const Index at = i - of_queries[s] + (n % 3 == 2 ? lengths : 0);
      const Index key = j - of_keys[s];
      return (!rule.causal || key <= at) && (!rule.window.left || at - key <= *rule.window.left) &&
             (!rule.window.right || key - at <= *rule.window.right);
    };
    bool same = true;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        same = same && allowed(i, j) == (band.begin(i) <= j && j < band.end(i));
      }
    }
    CAPTURE(n);
    CHECK(same);
    for (int repeat = 0; repeat < 10; ++repeat, ++ranges) {
      TileRange range;
      range.row0 = random_index(random, 0, rows - 1);
      range.rows = random_index(random, 0, rows - range.row0);
      range.col0 = random_index(random, 0, cols - 1);
      range.cols = random_index(random, 0, std::min<Index>(9, cols - range.col0));
      Index in_use = 0;
      Index pairs = 0;
      for (Index j = range.col0; j < range.col0 + range.cols; ++j) {
        for (Index i = range.row0; i < range.row0 + range.rows; ++i) {
          if (!allowed(i, j)) continue;
          ++pairs;
          in_use = j + 1 - range.col0;
        }
      }
      CHECK(band.empty(range) == (pairs == 0));
      CHECK(band.full(range) == (pairs == range.rows * range.cols));
      CHECK(band.cols_in_use(range) >= in_use);
      empty += pairs == 0 ? 1 : 0;
    }
  }
  CHECK(empty > ranges / 10);
  CHECK(empty < ranges * 9 / 10);
}

TEST_CASE("sequences by the numbers of their tokens") {
  const auto starts = [](std::vector<Index> queries, std::vector<Index> keys) {
    return starts_of_ids(queries, keys, "q", "k");
  };
  CHECK(starts({}, {}) == PackedStarts{{0}, {0}});
  CHECK(starts({7, 7, 3}, {7, 7, 3}) == PackedStarts{{0, 2, 3}, {0, 2, 3}});
  CHECK(starts({7, 3, 3}, {7, 7, 3}) == PackedStarts{{0, 1, 3}, {0, 2, 3}});
  // Sequences of queries or of keys alone.
  CHECK(starts({1, 2, 4}, {0, 2, 2, 3, 4}) == PackedStarts{{0, 0, 1, 2, 2, 3}, {0, 1, 1, 3, 4, 5}});
  CHECK(starts({5}, {6}) == PackedStarts{{0, 0, 1}, {0, 1, 1}});
  const Error twice = thrown_error([&] { starts({1, 2, 1}, {1, 2, 1}); });
  CHECK(contains(twice.what(), "q has 1 at 0 and again at 2"));
  const Error order = thrown_error([&] { starts({1, 2}, {2, 1}); });
  CHECK(contains(order.what(), "in the same order"));
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
