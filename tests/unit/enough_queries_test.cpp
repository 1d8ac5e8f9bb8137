#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "stats/attention_shares.hpp"
#include "stats/enough_queries.hpp"

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
  REQUIRE(found.greatest);
  CHECK(found.greatest->position == 3);
  CHECK(found.greatest->value == 0.5);

  const EnoughQueries none = keys_with_enough(sums, queries, std::vector<Index>{9}, {1e-8});
  CHECK(none.keys == 0);
  CHECK(std::isnan(none.explained_away[0].share));
  CHECK(!none.greatest);
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
