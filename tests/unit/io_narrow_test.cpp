#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/half.hpp"
#include "tensor/narrow.hpp"

using namespace attn;

namespace {

struct Format {
  const char* name;
  std::uint16_t (*narrow)(double);
  float (*widen)(std::uint16_t);
  std::uint16_t infinity;
};

const Format narrow_formats[] = {{"float16", narrow_half, widen_half, 0x7c00},
                                 {"bfloat16", narrow_bfloat16, widen_bfloat16, 0x7f80}};

/// The nearest finite code, found by trying all of them; the even one of two equally near codes. In
/// long double, in which the differences are exact.
std::uint16_t nearest_code(const Format& format, double value) {
  std::uint16_t best = 0;
  long double least = std::numeric_limits<long double>::infinity();
  for (std::uint32_t code = 0; code <= format.infinity; ++code) {
    // Infinity represents the next number.
    const long double last = format.widen(static_cast<std::uint16_t>(format.infinity - 1));
    const long double step = last - format.widen(static_cast<std::uint16_t>(format.infinity - 2));
    const long double at =
        code == format.infinity ? last + step : format.widen(static_cast<std::uint16_t>(code));
    const long double distance = std::fabs(std::fabs(static_cast<long double>(value)) - at);
    if (distance < least || (distance == least && code % 2 == 0)) {
      least = distance;
      best = static_cast<std::uint16_t>(code);
    }
  }
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

}  // namespace

TEST_CASE("every number of the narrow formats is preserved") {
  for (const Format& format : narrow_formats) {
    for (std::uint32_t code = 0; code < 0x10000; ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      if ((bits & 0x7fff) > format.infinity) {
        CHECK((format.narrow(format.widen(bits)) & 0x7fff) > format.infinity);  // still a NaN
      } else {
        CHECK(format.narrow(format.widen(bits)) == bits);
      }
    }
  }
}

TEST_CASE("ties round to even, and neighbours of a tie to their own side") {
  for (const Format& format : narrow_formats) {
    for (std::uint32_t code = 0; code + 1 < format.infinity; ++code) {
      const double low = format.widen(static_cast<std::uint16_t>(code));
      const double high = format.widen(static_cast<std::uint16_t>(code + 1));
      const double tie = (low + high) / 2;  // exact in float64
      CHECK(format.narrow(tie) == code + code % 2);
      CHECK(format.narrow(std::nextafter(tie, low)) == code);
      CHECK(format.narrow(std::nextafter(tie, high)) == code + 1);
      CHECK(format.narrow(-tie) == (0x8000 | (code + code % 2)));
    }
    const double largest = format.widen(static_cast<std::uint16_t>(format.infinity - 1));
    const double before = format.widen(static_cast<std::uint16_t>(format.infinity - 2));
    const double edge = largest + (largest - before) / 2;
    CHECK(format.narrow(std::nextafter(edge, 0.0)) == format.infinity - 1);
    CHECK(format.narrow(edge) == format.infinity);
    CHECK(format.narrow(1e308) == format.infinity);
    CHECK(format.narrow(-1e308) == (format.infinity | 0x8000));
    CHECK(format.narrow(5e-324) == 0);
    CHECK(format.narrow(-5e-324) == 0x8000);
  }
}

TEST_CASE("numbers of all magnitudes round to the nearest") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  for (const Format& format : narrow_formats) {
    for (int round = 0; round < 300; ++round) {
      const int exponent = static_cast<int>(random() % 300) - 150;
      const double value = std::ldexp(mantissa(random), exponent);
      CHECK(format.narrow(value) == nearest_code(format, value));
    }
  }
}
