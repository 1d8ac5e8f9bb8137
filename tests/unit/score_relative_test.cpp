#include "score/relative_bias.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "random_problem.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

BucketRule rule_of(bool bidirectional, Index buckets = 32, Index max_distance = 128) {
  BucketRule rule;
  rule.bidirectional = bidirectional;
  rule.buckets = buckets;
  rule.max_distance = max_distance;
  return rule;
}

// The first distance, going back from the query, of each bucket.
std::vector<Index> first_distances(const BucketRule& rule) {
  std::vector<Index> first;
  for (Index distance = 0; distance < 200; ++distance) {
    const Index bucket = t5_bucket(-distance, rule);
    if (bucket == static_cast<Index>(first.size())) first.push_back(distance);
  }
  return first;
}

}  // namespace

TEST_CASE("T5's buckets begin at the published distances") {
  const std::vector<Index> bidirectional = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  std::vector<Index> causal;
  for (Index d = 0; d < 16; ++d) causal.push_back(d);
  for (const Index d : {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}) {
    causal.push_back(d);
  }
  CHECK(first_distances(rule_of(true)) == bidirectional);
  CHECK(first_distances(rule_of(false)) == causal);
}

TEST_CASE("later keys use the second half of the buckets, or all share the first one") {
  for (const Index distance : {1, 7, 8, 11, 12, 90, 91, 127, 128, 1000, 1 << 20}) {
    CHECK(t5_bucket(distance, rule_of(true)) == t5_bucket(-distance, rule_of(true)) + 16);
    CHECK(t5_bucket(distance, rule_of(false)) == 0);
  }
  CHECK(t5_bucket(0, rule_of(true)) == 0);
  CHECK(t5_bucket(std::numeric_limits<Index>::max(), rule_of(true)) == 31);
  CHECK(t5_bucket(-std::numeric_limits<Index>::max(), rule_of(true)) == 15);
  CHECK(t5_bucket(-std::numeric_limits<Index>::max(), rule_of(false)) == 31);
}

TEST_CASE("buckets never decrease with distance, and follow the definition") {
  for (const bool bidirectional : {false, true}) {
    for (const Index buckets : {4, 6, 20, 32, 33, 64}) {
      for (const Index most : {33, 128, 200, 1000}) {
        const BucketRule rule = rule_of(bidirectional, buckets, most);
        const Index side = bidirectional ? buckets / 2 : buckets;
        Index before = 0;
        for (Index distance = 0; distance < most + 50; ++distance) {
          const Index bucket = t5_bucket(-distance, rule);
          const Index want = reference::t5_bucket(-distance, bidirectional, buckets, most);
          CAPTURE(buckets);
          CAPTURE(most);
          CAPTURE(distance);
          CHECK(bucket >= before);
          CHECK(bucket < side);
          // In float32 a distance just at a boundary may fall short of it.
          if (reference::t5_bucket(-distance + 1, bidirectional, buckets, most) == want) {
            CHECK(bucket == want);
          } else {
            CHECK((bucket == want || bucket == want - 1));
          }
          before = bucket;
        }
        CHECK(before == side - 1);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a pair has the bias of its bucket, with positions as for causality", T, float,
                   double) {
  Random random(92);
  std::vector<T> table(32 * 3);
  for (std::size_t n = 0; n < table.size(); ++n) table[n] = static_cast<T>(n) - T{40};
  const MatrixView<const T> rel_bias(table.data(), 32, 3);
  for (int n = 0; n < 60; ++n) {
    const Index rows = random_size(random, 1, 300);
    const Index cols = random_size(random, 1, 300);
    const Index head = random_index(random, 0, 2);
    const Causal causal =
        n % 3 == 0 ? Causal::none : (n % 3 == 1 ? Causal::top_left : Causal::bottom_right);
    const auto bias =
        t5_relative_bias<T>(rel_bias, head, rows, cols, causal_band(causal, rows, cols));
    const Index first = causal == Causal::bottom_right ? cols - rows : 0;
    CHECK(bias.rows() == rows);
    CHECK(bias.cols() == cols);
    double largest = 0;
    bool right = true;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const Index bucket = reference::t5_bucket(j - i - first, causal == Causal::none, 32, 128);
        right = right && bias.row(i)[j] == rel_bias(bucket, head);
        largest = std::max(largest, std::abs(static_cast<double>(bias.row(i)[j])));
      }
    }
    CHECK(right);
    CHECK(bias.bound() == largest);
  }
}

TEST_CASE("ALiBi's slopes are the published ones") {
  const std::vector<double> eight = {1 / 2.,  1 / 4.,  1 / 8.,   1 / 16.,
                                     1 / 32., 1 / 64., 1 / 128., 1 / 256.};
  CHECK(alibi_slopes(8) == eight);
  CHECK(alibi_slopes(1) == std::vector<double>{1 / 256.});
  CHECK(alibi_slopes(2) == std::vector<double>{1 / 16., 1 / 256.});
  CHECK(alibi_slopes(0).empty());
  // 12 heads: those of 8, then the first, third, fifth and seventh of 16.
  const auto twelve = alibi_slopes(12);
  REQUIRE(twelve.size() == 12);
  for (std::size_t h = 0; h < 8; ++h) CHECK(twelve[h] == eight[h]);
  for (int h = 0; h < 4; ++h) {
    CHECK(twelve[static_cast<std::size_t>(8 + h)] ==
          doctest::Approx(std::pow(2, -0.5 * (2 * h + 1))).epsilon(1e-15));
  }
  // 3 heads: those of 2, then the first of 4.
  CHECK(alibi_slopes(3) == std::vector<double>{1 / 16., 1 / 256., 1 / 4.});
  for (const Index heads : {16, 32, 112}) {
    const auto slopes = alibi_slopes(heads);
    REQUIRE(slopes.size() == static_cast<std::size_t>(heads));
    for (const double slope : slopes) CHECK((slope > 0 && slope < 1));
  }
}

TEST_CASE_TEMPLATE("ALiBi falls with the distance, with positions as for causality", T, float,
                   double) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    const auto bias = alibi_bias<T>(0.3, 3, 5, causal_band(causal, 3, 5));
    const Index first = causal == Causal::bottom_right ? 2 : 0;
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 5; ++j) {
        const auto distance = static_cast<double>(std::abs(j - i - first));
        CHECK(bias.row(i)[j] == static_cast<T>(-0.3 * distance));
      }
    }
  }
}

TEST_CASE_TEMPLATE("invalid tables of relative bias are refused", T, float, double) {
  const std::vector<T> table(32, T{1});
  const auto failure = [&](Index buckets, Index most, Causal causal) {
    return thrown_error([&] {
      t5_relative_bias<T>({table.data(), buckets, 1}, 0, 4, 4, causal_band(causal, 4, 4), most);
    });
  };
  CHECK(contains(failure(3, 128, Causal::none).what(), "3 buckets, expected at least 4"));
  CHECK(contains(failure(1, 128, Causal::top_left).what(), "expected at least 2"));
  CHECK(contains(failure(32, 8, Causal::none).what(), "is 8, expected more than 8"));
  CHECK(failure(32, 16, Causal::top_left).failure() == Failure::input);
  std::vector<T> values(5, T{0});
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::infinity()}) {
    values[3] = bad;
    CHECK(thrown_error([&] { RelativeBias<T>(2, 4, values); }).failure() == Failure::input);
  }
  CHECK(relative_bias_bytes(7, 5, sizeof(T)) == 11 * static_cast<std::int64_t>(sizeof(T)));
  CHECK(relative_bias_bytes(0, 5, sizeof(T)) == 0);
}
