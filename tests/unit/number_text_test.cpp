// tensor/number_text: the shortest decimal of a number.

#include "tensor/number_text.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>

#include "infinity.hpp"

using namespace attn;
using namespace attn::testing;

TEST_CASE("decimals are the shortest that read back") {
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(0.1F) == "0.1");
  CHECK(number_text(-0.0) == "-0");
  CHECK(number_text(100000.0) == "100000");
  CHECK(number_text(1e30) == "1e+30");
  CHECK(number_text(1.5e-5) == "1.5e-05");
  CHECK(number_text(infinity) == "inf");
  CHECK(number_text(-infinity) == "-inf");
  CHECK(number_text(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  for (const double value : {5e-324, 1.7976931348623157e308, 1 / 3.0, 123456789.125, -2e-4, 1e16}) {
    CHECK(std::strtod(number_text(value).c_str(), nullptr) == value);
  }
}
