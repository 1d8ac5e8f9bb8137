#include "claim_check/claim_verdict.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "attnkit/error.hpp"
#include "infinity.hpp"

using namespace attn;
using namespace attn::tools;
using attn::testing::infinity;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

Verdict judge_one(Relation relation, double measured, double expected, double tolerance = 0,
                  double relative = 0) {
  const std::vector<double> m = {measured};
  const std::vector<double> e = {expected};
  return judge({relation, tolerance, relative}, m, e, {});
}

bool holds(Relation relation, double measured, double expected, double tolerance = 0,
           double relative = 0) {
  return judge_one(relation, measured, expected, tolerance, relative).holds;
}

Verdict judge_all(Relation relation, const std::vector<double>& measured,
                  const std::vector<double>& expected = {}, double tolerance = 0,
                  const std::vector<double>& over = {}) {
  return judge({relation, tolerance, 0}, measured, expected, over);
}

}  // namespace

TEST_CASE("relations at the edges of their bounds") {
  CHECK(holds(Relation::equal, 1, 1));
  CHECK_FALSE(holds(Relation::equal, 1, std::nextafter(1, 2)));
  CHECK(holds(Relation::within, 1.5, 1, 0.5));
  CHECK(holds(Relation::within, 0.5, 1, 0.5));
  CHECK_FALSE(holds(Relation::within, 1.75, 1, 0.5));
  CHECK(holds(Relation::within, 18, 16, 0, 0.125));
  CHECK_FALSE(holds(Relation::within, 18.5, 16, 0, 0.125));
  CHECK(holds(Relation::within, -18.5, -16, 0.5, 0.125));
  CHECK_FALSE(holds(Relation::less, 1, 1));
  CHECK(holds(Relation::less, 1, 1, 0.25));
  CHECK(holds(Relation::at_most, 1, 1));
  CHECK_FALSE(holds(Relation::at_most, 1.5, 1, 0.25));
  CHECK_FALSE(holds(Relation::greater, 1, 1));
  CHECK(holds(Relation::at_least, 1, 1));
  CHECK(holds(Relation::at_least, 0.75, 1, 0.25));
  CHECK_FALSE(holds(Relation::at_least, 0.5, 1, 0.25));
}

TEST_CASE("numbers on the edge are judged as the decimals that they read back from") {
  const double edges[][3] = {{0.4, 0.3, 0.1},    {1.1, 1.0, 0.1},      {0.8, 0.7, 0.1},
                             {0.6, 0.5, 0.1},    {2.35, 2.3, 0.05},    {0.095, 0.09, 0.005},
                             {0.15, 0.1, 0.05},  {-0.4, -0.3, 0.1},    {4e-300, 3e-300, 1e-300},
                             {4e22, 3e22, 1e22}, {1e308, 9e307, 1e307}};
  for (const auto& edge : edges) {
    // clang 14 cannot capture structured bindings.
    const double measured = edge[0], expected = edge[1], tolerance = edge[2];
    CAPTURE(measured);
    CHECK(judge_one(Relation::within, measured, expected, tolerance).margin == 0);
    CHECK(judge_one(Relation::within, -measured, -expected, tolerance).margin == 0);
    // Beyond the edge by a digit that doubles can tell apart.
    for (const double beyond : {1 + 1e-12, 1 + 1e-15}) {
      CHECK_FALSE(holds(Relation::within, measured * beyond, expected, tolerance));
      CHECK_FALSE(holds(Relation::equal, measured, expected, tolerance / beyond));
      CHECK(holds(Relation::within, measured, expected, tolerance * beyond));
    }
  }
  CHECK(holds(Relation::at_most, 0.4, 0.3, 0.1));
  CHECK_FALSE(holds(Relation::less, 0.4, 0.3, 0.1));
  CHECK_FALSE(holds(Relation::less, 0.6, 0.5, 0.1));  // 0.5 + 0.1 > 0.6 in doubles
  CHECK(holds(Relation::at_least, 0.2, 0.3, 0.1));
  CHECK_FALSE(holds(Relation::greater, 0.2, 0.3, 0.1));
  CHECK(judge_one(Relation::within, 1.1, 1, 0, 0.1).margin == 0);
  CHECK(judge_one(Relation::within, 0.33, 0.3, 0, 0.1).margin == 0);
  CHECK(judge_one(Relation::within, 0.36, 0.3, 0.03, 0.1).margin == 0);
  CHECK_FALSE(judge_all(Relation::increasing, {0.4, 0.3}, {}, 0.1).holds);
  CHECK(judge_all(Relation::increasing, {0.4, 0.3}, {}, 0.1 * (1 + 1e-15)).holds);
  CHECK_FALSE(judge_all(Relation::decreasing, {0.5, 0.6}, {}, 0.1).holds);
  // A slope is computed, and judged as every other number.
  const double slope = judge_all(Relation::slope, {1, 3}, {1}, 9, {1, 2}).measured;
  CHECK(judge_all(Relation::slope, {1, 3}, {slope}, 1e-300, {1, 2}).holds);
  CHECK(holds(Relation::equal, 5e-324, 0, 5e-324));
  CHECK_FALSE(holds(Relation::equal, 1e-323, 0, 5e-324));
}

TEST_CASE("NaN never holds, infinities hold where they should") {
  for (const Relation relation : {Relation::equal, Relation::within, Relation::less,
                                  Relation::at_most, Relation::greater, Relation::at_least}) {
    CAPTURE(name(relation));
    CHECK_FALSE(holds(relation, no_number, 1, 1));
    CHECK_FALSE(holds(relation, 1, no_number, 1));
    CHECK(std::isnan(judge_one(relation, no_number, 1, 1).margin));
    CHECK_FALSE(judge_all(relation, {1, no_number, 1}, {1}, 1).holds);
    CHECK(std::isnan(judge_all(relation, {1, no_number, 7}, {1}, 1).margin));
  }
  CHECK_FALSE(judge_all(Relation::increasing, {1, no_number, 3}).holds);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, no_number, 3}, {1}, 9, {1, 2, 3}), Error);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, 0, 3}, {1}, 9, {1, 2, 3}), Error);
  CHECK(holds(Relation::equal, infinity, infinity));
  CHECK(holds(Relation::at_most, -infinity, -infinity));
  CHECK_FALSE(holds(Relation::less, infinity, infinity));
  CHECK_FALSE(holds(Relation::within, infinity, -infinity, 1e300));
  CHECK(holds(Relation::less, 1, infinity));
}

TEST_CASE("the worst of several numbers is reported") {
  const Verdict verdict = judge_all(Relation::at_most, {1, 5, 3}, {4});
  CHECK_FALSE(verdict.holds);
  CHECK(verdict.measured == 5);
  CHECK(verdict.margin == -1);
  const Verdict each = judge_all(Relation::within, {1, 2, 3}, {1, 2.25, 3.5}, 0.5);
  CHECK(each.holds);
  CHECK(each.margin == 0);
  CHECK(each.expected == 3.5);
  CHECK_THROWS_AS(judge_all(Relation::equal, {1, 2, 3}, {1, 2}), Error);
  CHECK_THROWS_AS(judge_all(Relation::equal, {}, {1}), Error);
}

TEST_CASE("order and slope") {
  CHECK(judge_all(Relation::increasing, {1, 2, 4}).margin == 1);
  CHECK_FALSE(judge_all(Relation::increasing, {1, 2, 2}).holds);
  CHECK(judge_all(Relation::increasing, {1, 2, 2}, {}, 0.5).holds);
  CHECK(judge_all(Relation::decreasing, {4, 2, 1}).holds);
  CHECK_FALSE(judge_all(Relation::decreasing, {4, 2, 3}, {}, 1).holds);
  CHECK_THROWS_AS(judge_all(Relation::increasing, {1}), Error);
  const Verdict cubic = judge_all(Relation::slope, {3, 24, -192}, {3}, 0.1, {1, 2, 4});
  CHECK(cubic.holds);
  CHECK(cubic.measured == doctest::Approx(3).epsilon(1e-14));
  CHECK_FALSE(judge_all(Relation::slope, {3, 24, 192}, {2.8}, 0.1, {1, 2, 4}).holds);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, 2}, {1}, 0.1, {2, 2}), Error);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, 2}, {1}, 0.1, {2}), Error);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, 2}, {1}, 0.1, {0, 1}), Error);
  CHECK_THROWS_AS(judge_all(Relation::slope, {1, 2}, {1}, 0.1, {-1, 1}), Error);
}

TEST_CASE("reductions") {
  const std::vector<double> values = {3, -7, 2};
  CHECK(reduce(Reduction::min, values) == -7);
  CHECK(reduce(Reduction::max, values) == 3);
  CHECK(reduce(Reduction::max_abs, values) == 7);
  CHECK(reduce(Reduction::sum, values) == -2);
  CHECK(reduce(Reduction::mean, values) == doctest::Approx(-2.0 / 3));
  CHECK(reduce(Reduction::count, values) == 3);
  CHECK(reduce(Reduction::first, values) == 3);
  CHECK(reduce(Reduction::last, values) == 2);
  CHECK(reduction_names().size() == 8);
  CHECK(relation_names().size() == 10);
  const std::vector<double> bad = {3, no_number, 2};
  for (const Reduction reduction : {Reduction::min, Reduction::max, Reduction::max_abs,
                                    Reduction::first, Reduction::sum, Reduction::mean}) {
    CHECK(std::isnan(reduce(reduction, bad)));
    CHECK(std::isnan(reduce(reduction, {})));
  }
  CHECK(reduce(Reduction::count, {}) == 0);
}

TEST_CASE("one number is enough for any, and the best one decides") {
  const auto any = [](Relation relation, const std::vector<double>& measured, double expected) {
    return judge({.relation = relation, .any = true}, measured, std::vector{expected}, {});
  };
  const Verdict found = any(Relation::greater, {1, 5, 3}, 4);
  CHECK(found.holds);
  CHECK(found.measured == 5);
  CHECK(found.margin == 1);
  CHECK_FALSE(any(Relation::greater, {1, 5, 3}, 5).holds);
  CHECK(any(Relation::equal, {1, 5, 3}, 3).holds);
  CHECK(any(Relation::equal, {no_number, 3}, 3).holds);
  CHECK_FALSE(any(Relation::equal, {no_number}, 3).holds);
  CHECK_FALSE(any(Relation::less, {no_number, no_number}, 3).holds);
}

TEST_CASE("margins are measured in tolerances, else in scales, else in bounds") {
  const Verdict verdict = {true, 1, 3, -4};
  const auto unit = [&](Relation relation, double tolerance, double relative, double scale) {
    return headroom_unit({relation, tolerance, relative, false, scale}, verdict);
  };
  CHECK(unit(Relation::within, 0.5, 0.25, 0) == 1.5);
  CHECK(unit(Relation::slope, 0.5, 0, 0) == 0.5);
  CHECK(unit(Relation::equal, 0, 0, 0) == 0);
  CHECK(unit(Relation::at_most, 0.5, 0, 0) == 0.5);
  CHECK(unit(Relation::at_most, 0, 0, 0.25) == 0.25);
  CHECK(unit(Relation::greater, 0, 0, 0) == 4);
  CHECK(unit(Relation::significant, 0, 0, 0) == 4);
  CHECK(unit(Relation::increasing, 0.5, 0, 0) == 0.5);
  CHECK(unit(Relation::decreasing, 0, 0, 0) == 0);
}
