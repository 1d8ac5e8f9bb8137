#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "stats/attention_shares.hpp"
#include "stats/enough_queries.hpp"
#include "stats/summary.hpp"

using namespace attn;

TEST_CASE("a tenth of the queries is enough, and at least one") {
  CHECK(usual_min_queries(0) == 1);
  CHECK(usual_min_queries(19) == 1);
  CHECK(usual_min_queries(20) == 2);
  CHECK(usual_min_queries(256) == 25);
}

TEST_CASE("explained-away keys among those with enough queries") {
  const std::vector<double> sums = {0.5, 1e-9, 0, 4, 1e-9};
  const std::vector<Index> queries = {5, 4, 0, 8, 1};
  const EnoughQueries found =
      keys_with_enough(sums, queries, std::vector<Index>{4}, {1e-8, 1.0, 1e-9});
  CHECK(found.keys == 3);
  REQUIRE(found.explained_away.size() == 3);
  CHECK(found.explained_away[0].count == 1);
  CHECK(found.explained_away[0].share == 1.0 / 3);
  CHECK(found.explained_away[1].count == 2);
  CHECK(found.explained_away[2].count == 0);  // c < epsilon, not equal
  CHECK(found.least == 1e-9);
  REQUIRE(found.greatest);
  CHECK(found.greatest->position == 3);
  CHECK(found.greatest->value == 0.5);

  const EnoughQueries none = keys_with_enough(sums, queries, std::vector<Index>{9}, {1e-8});
  CHECK(none.keys == 0);
  CHECK(std::isnan(none.explained_away[0].share));
  CHECK(!none.greatest);
  CHECK(std::isnan(none.least));
}

TEST_CASE("keys in the order of their sums per query") {
  const std::vector<double> sums = {0.5, 4, 0, 1, 0.5, 2};
  const std::vector<Index> queries = {1, 8, 0, 2, 5, 4};  // c/n: 0.5, 0.5, none, 0.5, 0.1, 0.5
  const std::vector<std::uint8_t> few = {0, 0, 1, 0, 0, 0};
  const auto positions = [](const std::vector<KeySum>& keys) {
    std::vector<Index> all;
    for (const KeySum& key : keys) all.push_back(key.position);
    return all;
  };
  // Equal quotients are in the order of the sums.
  CHECK(positions(lowest_per_query(sums, queries, few, 9)) == std::vector<Index>{4, 0, 3, 5, 1});
  CHECK(positions(highest_per_query(sums, queries, few, 3)) == std::vector<Index>{1, 5, 3});
  CHECK(lowest_per_query(sums, queries, few, 1).front().value == 0.5);
  // With as many queries for each key this is the order of the sums, ties by position.
  const std::vector<Index> same(sums.size(), 3);
  const auto by_sum = lowest_keys(sums, {}, 6);
  CHECK(positions(lowest_per_query(sums, same, {}, 6)) == positions(by_sum));
  CHECK(positions(highest_per_query(sums, same, {}, 6)) == positions(highest_keys(sums, {}, 6)));
  CHECK(lowest_per_query({}, {}, {}, 3).empty());
}

TEST_CASE("each head has its own number of queries that is enough") {
  const std::vector<double> sums = {0.5, 1e-9, 0.5, 1e-9};
  const std::vector<Index> queries = {5, 4, 5, 1};
  const EnoughQueries found = keys_with_enough(sums, queries, std::vector<Index>{5, 1}, {1e-8});
  CHECK(found.keys == 3);
  CHECK(found.explained_away[0].count == 1);
  CHECK(keys_with_enough({}, {}, {}, {1e-8}).keys == 0);
}

TEST_CASE("shares of the attention on the first key and on the keys with the most") {
  const std::vector<double> sums = {9, 1, 4, 2, 3};
  const std::vector<std::uint8_t> masked = {1, 0, 0, 0, 0};
  AttentionShares shares = attention_shares(sums, masked, {1, 2, 10});
  CHECK(shares.total == 10);
  CHECK(shares.first == 1);
  CHECK(shares.most == std::vector<double>{4, 7, 10});
  shares.add(attention_shares(sums, {}, {1, 2, 10}));
  CHECK(shares.total == 29);
  CHECK(shares.first == 10);
  CHECK(shares.most == std::vector<double>{13, 20, 29});
}
