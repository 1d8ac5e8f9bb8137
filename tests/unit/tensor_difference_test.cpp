#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "infinity.hpp"
#include "tensor/difference.hpp"

using namespace attn;
using attn::testing::infinity;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Difference between(const std::vector<double>& a, const std::vector<double>& b,
                   const Tolerance& tolerance = {}) {
  Difference difference;
  difference.add(a.data(), b.data(), 0, static_cast<Index>(a.size()), tolerance);
  return difference;
}

bool same(double a, double b, const Tolerance& tolerance = {}) {
  return between({a}, {b}, tolerance).differing == 0;
}

}  // namespace

TEST_CASE("the default tolerance is exact") {
  CHECK(same(1, 1));
  CHECK(same(0.0, -0.0));
  CHECK_FALSE(same(1, std::nextafter(1.0, 2.0)));
  CHECK_FALSE(same(0, 5e-324));
}

TEST_CASE("the tolerance is relative to b") {
  CHECK(same(101, 100, {.relative = 0.01}));
  CHECK_FALSE(same(100, 99, {.relative = 0.01}));
  CHECK(same(-101, -100, {.relative = 0.01}));
  CHECK(same(0.5, 0, {.absolute = 0.5}));
  CHECK_FALSE(same(0.5, 0, {.relative = 100}));
  CHECK(same(102, 100, {.relative = 0.01, .absolute = 1}));
}

TEST_CASE("infinities and NaN equal nothing else at any tolerance") {
  const Tolerance loose{.relative = 1e300, .absolute = 1e300};
  CHECK(same(infinity, infinity));
  CHECK(same(-infinity, -infinity));
  for (const double other : {0.0, 1.0, -1.0, 1e308, -infinity, not_a_number}) {
    CAPTURE(other);
    CHECK_FALSE(same(infinity, other, loose));
    CHECK_FALSE(same(other, infinity, loose));
  }
  for (const double other : {0.0, infinity, -infinity, not_a_number}) {
    CHECK_FALSE(same(not_a_number, other, loose));
    CHECK_FALSE(same(other, not_a_number, loose));
  }
  const Tolerance nan_equal{.relative = 1e300, .absolute = 1e300, .nan_equal = true};
  CHECK(same(not_a_number, not_a_number, nan_equal));
  CHECK(same(not_a_number, -not_a_number, nan_equal));
  CHECK_FALSE(same(not_a_number, 0, nan_equal));
  CHECK_FALSE(same(infinity, not_a_number, nan_equal));
}

TEST_CASE("the largest errors and where they are") {
  Difference d = between({1, 2.5, 3, 14}, {1, 2, 3.5, 10});
  CHECK(d.compared == 4);
  CHECK(d.differing == 3);
  CHECK(d.largest_absolute == 4);
  CHECK(d.absolute_at == 3);
  CHECK(d.largest_relative == 0.4);
  CHECK(d.relative_at == 3);
  d = between({1, 1, 10.5}, {1, 0.5, 10});
  CHECK(d.largest_absolute == 0.5);
  CHECK(d.absolute_at == 1);
  CHECK(d.largest_relative == 1);

  d = between({1, 0}, {1, -0.0});
  CHECK(d.largest_absolute == 0);
  CHECK(d.absolute_at == -1);
  CHECK(d.relative_at == -1);

  d = between({1e-9, 5}, {0, 1});
  CHECK(d.largest_relative == infinity);
  CHECK(d.relative_at == 0);
  CHECK(d.absolute_at == 1);

  d = between({infinity, 5, not_a_number, 1, not_a_number}, {1, 1, 1, 1, not_a_number});
  CHECK(d.differing == 4);
  CHECK(std::isnan(d.largest_absolute));
  CHECK(d.absolute_at == 2);
  CHECK(std::isnan(d.largest_relative));
  CHECK(d.relative_at == 2);
}

TEST_CASE("errors within the tolerance are reported too") {
  const Difference d = between({1.5}, {1}, {.absolute = 1});
  CHECK(d.differing == 0);
  CHECK(d.largest_absolute == 0.5);
}

TEST_CASE("blocks add up") {
  const std::vector<double> a = {1, 2, 3, 4, 9}, b = {1, 2, 5, 4, 5};
  Difference d;
  d.add(a.data(), b.data(), 0, 2, {});
  d.add(a.data() + 2, b.data() + 2, 2, 3, {});
  CHECK(d.compared == 5);
  CHECK(d.differing == 2);
  CHECK(d.absolute_at == 4);
  CHECK(d.largest_absolute == 4);
}

TEST_CASE("integers beyond 2^53 are distinguished") {
  constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t small = std::numeric_limits<std::int64_t>::min();
  const std::vector<std::int64_t> a = {big, small, 7}, b = {big - 1, big, 7};
  Difference d;
  d.add(a.data(), b.data(), 0, 3, {});
  CHECK(d.differing == 2);
  CHECK(d.largest_absolute == 0x1p64);
  CHECK(d.absolute_at == 1);
}
