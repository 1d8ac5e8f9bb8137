#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "attnkit/statistics.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "stats/summary.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

Array<double> random_sums(const Shape& shape, Random& random) {
  Array<double> sums(shape);
  std::uniform_real_distribution<double> exponent(-12, 1);
  for (double& sum : sums.values) sum = std::pow(10, exponent(random));
  return sums;
}

void check_same(const ColumnSumSummary& found, const ColumnSumSummary& expected) {
  CHECK(found.keys == expected.keys);
  CHECK(found.masked_keys == expected.masked_keys);
  const double a[] = {found.min, found.max, found.mean, found.median};
  const double b[] = {expected.min, expected.max, expected.mean, expected.median};
  CHECK(same_bits(a, b, 4));
  REQUIRE(found.explained_away.size() == expected.explained_away.size());
  for (std::size_t n = 0; n < found.explained_away.size(); ++n) {
    CHECK(found.explained_away[n].count == expected.explained_away[n].count);
  }
  REQUIRE(found.lowest.size() == expected.lowest.size());
  for (std::size_t n = 0; n < found.lowest.size(); ++n) {
    CHECK(found.lowest[n].position == expected.lowest[n].position);
    CHECK(found.highest[n].position == expected.highest[n].position);
  }
}

}  // namespace

TEST_CASE("statistics plans give what the functions give, for each head and all together") {
  Random random(921);
  for (const Index keys : {1, 2, 7, 64, 513}) {
    for (const int threads : {1, 3}) {
      const Array<double> sums = random_sums({2, 3, keys}, random);
      Array<std::uint8_t> masked({3, keys}, 0);
      for (std::size_t n = 1; n < masked.values.size(); n += 4) masked.values[n] = 1;
      StatisticsInputs in{sums.view(), masked.view(), {}};
      StatisticsOptions options;
      options.summary.epsilons = {1e-8, 1e-3};
      options.scheme = Scheme::dnas;
      StatisticsPlan plan(shapes_of(in), options, threads);
      const Statistics found = plan.run(in);
      REQUIRE(found.heads.size() == 6);
      std::vector<std::uint8_t> all_masked;
      std::optional<double> least;
      for (Index head = 0; head < 6; ++head) {
        const auto first = sums.values.begin() + head * keys;
        std::vector<double> of_head(first, first + keys);
        const std::uint8_t* const mask = masked.block(head, {2, 3}, 1);
        const std::vector<std::uint8_t> of_mask(mask, mask + keys);
        all_masked.insert(all_masked.end(), of_mask.begin(), of_mask.end());
        const HeadStatistics& one = found.heads[static_cast<std::size_t>(head)];
        const Histogram expected = histogram(of_head, of_mask, one.histogram.edges);
        check_same(one.sums, summarise(of_head, of_mask, options.summary));
        CHECK(one.histogram.counts == expected.counts);
        CHECK(one.histogram.zeros == 0);
        CHECK(one.histogram.edges == found.all.histogram.edges);
        if (one.sums.keys == 0) {
          CHECK(!one.bound);
          continue;
        }
        CHECK(one.bound == 1.0 / static_cast<double>(one.sums.keys));
        CHECK(one.margin == one.sums.min / *one.bound);
        CHECK(one.holds == (*one.margin >= 1 - bound_slack(8)));
        least = std::min(least.value_or(*one.margin), *one.margin);
      }
      CHECK(found.all.margin == least);
      CHECK(found.all.histogram.counts ==
            histogram(sums.values, all_masked, found.all.histogram.edges).counts);
      std::vector<double> all = sums.values;
      check_same(found.all.sums, summarise(all, all_masked, options.summary));
    }
  }
}

TEST_CASE("statistics plans: the bound goes by scheme and by the keys of a query") {
  const Array<double> sums({2, 3}, 0.3);
  Array<Index> most({2}, 3);
  most.values[1] = 4;
  StatisticsInputs in{sums.view(), {}, most.view()};
  StatisticsOptions options;
  options.scheme = Scheme::dnas;
  StatisticsPlan plan(shapes_of(in), options, 1);
  const Statistics found = plan.run(in);
  CHECK(found.heads[0].bound == 1.0 / 3);
  CHECK(!found.heads[0].holds);
  CHECK(found.heads[1].bound == 0.25);
  CHECK(found.heads[1].holds);
  CHECK(!found.all.holds);
  CHECK(found.all.bound == 0.25);
  CHECK(found.all.margin == 0.3 / (1.0 / 3));

  options.scheme = Scheme::hnas;
  options.hybrid = 0.5;
  CHECK(StatisticsPlan(shapes_of(in), options, 1).run(in).heads[0].bound == 0.5 / 3);
  options.scheme = Scheme::unas;
  CHECK(!StatisticsPlan(shapes_of(in), options, 1).run(in).all.bound);

  // A scalar applies to all heads.
  const Array<Index> one({}, 2);
  in.most_keys = one.view();
  options.scheme = Scheme::sinkhorn;
  CHECK(StatisticsPlan(shapes_of(in), options, 1).run(in).heads[1].bound == 0.5);
}

TEST_CASE("statistics plans without heads or keys") {
  const Array<double> none({0, 4});
  StatisticsInputs in{none.view(), {}, {}};
  const Statistics found = StatisticsPlan(shapes_of(in), {}, 2).run(in);
  CHECK(found.heads.empty());
  CHECK(found.all.sums.keys == 0);
  CHECK(std::isnan(found.all.sums.min));
  const Array<double> no_keys({2, 0});
  in.column_sums = no_keys.view();
  CHECK(StatisticsPlan(shapes_of(in), {}, 2).run(in).heads.size() == 2);
}

TEST_CASE("statistics plans refuse shapes, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  Array<double> sums({2, 3}, 0.5);
  StatisticsShapes shapes;
  const auto plan_of = [&](const StatisticsOptions& options = {}, int threads = 1) {
    StatisticsPlan(shapes, options, threads);
  };
  CHECK(contains(message([&] { plan_of(); }), "expected column_sums"));
  shapes.column_sums = sums.shape;
  shapes.masked = Shape{4};
  CHECK(contains(message([&] { plan_of(); }), "masked has the last axes (4)"));
  shapes.masked = Shape{3, 3};
  CHECK(contains(message([&] { plan_of(); }), "do not broadcast"));
  shapes.masked = Shape{3};
  shapes.most_keys = Shape{3};
  CHECK(contains(message([&] { plan_of(); }), "most_keys"));
  shapes.most_keys = std::nullopt;
  CHECK(thrown_error([&] { plan_of({}, 0); }).failure() == Failure::usage);
  StatisticsOptions options;
  options.hybrid = 1.5;
  CHECK(contains(message([&] { plan_of(options); }), "hybrid"));
  options = {};
  options.summary.bins = 0;
  CHECK(contains(message([&] { plan_of(options); }), "bins"));
  options = {};
  options.summary.probabilities = {1.5};
  CHECK(contains(message([&] { plan_of(options); }), "probability"));
  options = {};
  options.element_size = 2;
  CHECK(contains(message([&] { plan_of(options); }), "element_size"));

  StatisticsInputs in{sums.view(), {}, {}};
  StatisticsPlan plan(shapes_of(in), {}, 1);
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    sums.values[4] = wrong;
    CHECK(contains(message([&] { plan.run(in); }), "at [1, 1], expected finite numbers >= 0"));
  }
  sums.values[4] = 0;
  CHECK(plan.run(in).heads[1].histogram.zeros == 1);
  in.column_sums.shape = {6};
  CHECK(contains(message([&] { plan.run(in); }), "column_sums is (6)"));
  in.column_sums = sums.view();
  const Array<Index> most({2}, -1);
  in.most_keys = most.view();
  CHECK(contains(message([&] { plan.run(in); }), "most_keys is (2)"));
  StatisticsPlan with_keys(shapes_of(in), {}, 1);
  CHECK(contains(message([&] { with_keys.run(in); }), "most_keys has -1"));
}

TEST_CASE("two statistics plans run at the same time, each many times") {
  Random random(922);
  const Array<double> few = random_sums({3, 40}, random);
  const Array<double> many = random_sums({8, 300}, random);
  const auto median = [](const Array<double>& sums, int repeats) {
    const StatisticsInputs in{sums.view(), {}, {}};
    StatisticsPlan plan(shapes_of(in), {}, 2);
    double sum = 0;
    for (int n = 0; n < repeats; ++n) sum += plan.run(in).heads.back().sums.median;
    return sum;
  };
  const double of_few = median(few, 4);
  const double of_many = median(many, 4);
  double found_few = 0;
  double found_many = 0;
  at_the_same_time([&] { found_few = median(few, 4); }, [&] { found_many = median(many, 4); });
  CHECK(found_few == of_few);
  CHECK(found_many == of_many);
}
