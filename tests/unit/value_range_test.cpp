#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "infinity.hpp"
#include "tensor/value_range.hpp"

using namespace attn;
using attn::testing::infinity;

TEST_CASE("Finite values have a range, others are counted") {
  const std::vector<double> values = {3, std::nan(""), -2, infinity, -infinity, -infinity, 0};
  ValueRange range;
  for (const double value : values) range.add(&value, 1);
  CHECK(range.count == 7);
  CHECK(range.nan == 1);
  CHECK(range.infinite == 3);
  CHECK(range.finite() == 3);
  CHECK(range.min == -2);
  CHECK(range.max == 3);
  ValueRange at_once;
  at_once.add(values.data(), 7);
  CHECK(at_once.max == range.max);
  CHECK(at_once.nan == range.nan);
  CHECK(ValueRange{}.finite() == 0);
}
