#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "io_fixture.hpp"
#include "tensor/convert.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

/// IEEE 754, 3.4, in words: (-1)^s 2^(e-15) (1 + m/2^10), 2^-14 m/2^10 where e is 0.
double by_definition(std::uint16_t half) {
  const int sign = half >> 15;
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else {
    value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  }
  return sign != 0 ? -value : value;
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return halves;
}

template <class T>
bool same(T found, double expected) {
  if (std::isnan(expected)) return std::isnan(found);
  return found == static_cast<T>(expected) && std::signbit(found) == std::signbit(expected);
}

template <class T>
int wrong(const std::vector<T>& values) {
  int count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    count += same(values[i], by_definition(static_cast<std::uint16_t>(i))) ? 0 : 1;
  }
  return count;
}

}  // namespace

TEST_CASE("Every half-precision number is widened exactly") {
  std::vector<float> narrow;
  for (const std::uint16_t half : all_halves()) narrow.push_back(widen_half(half));
  CHECK(wrong(narrow) == 0);
}

TEST_CASE("NaNs keep their sign and payload") {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    if ((half & 0x7c00u) != 0x7c00u || (half & 0x3ffu) == 0) continue;
    const auto bits = std::bit_cast<std::uint32_t>(widen_half(static_cast<std::uint16_t>(half)));
    CHECK(bits == ((half & 0x8000u) << 16 | 0x7f800000u | (half & 0x3ffu) << 13));
  }
}

TEST_CASE("float16 datasets are read exactly in either byte order and through slices") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> halves = all_halves();
  std::vector<std::uint16_t> swapped;
  for (const std::uint16_t h : halves) {
    swapped.push_back(static_cast<std::uint16_t>(h << 8 | h >> 8));
  }
  {
    RawFile file(folder / "h.h5");
    const h5::Handle little = half_type();
    const h5::Handle big = half_type(true);
    file.put("little", little.get(), little.get(), {256, 256}, halves.data());
    file.put("big", big.get(), big.get(), {256, 256}, swapped.data());
  }
  const InputBundle bundle = open_input(folder / "h.h5");
  for (const char* name : {"little", "big"}) {
    CAPTURE(name);
    const ArraySource dataset = bundle.dataset(name);
    CHECK(dataset.dtype() == DType::f16);
    CHECK(wrong(values_of<float>(dataset)) == 0);
    CHECK(wrong(values_of<double>(dataset)) == 0);
    const std::string address = folder / "h.h5:/" + name + "[60, ::5]";
    const ArraySource slice = open_input("", {{"x", address}}).dataset("x");
    const std::vector<float> values = values_of<float>(slice);
    REQUIRE(values.size() == 52);
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(same(values[i], by_definition(static_cast<std::uint16_t>(60 * 256 + 5 * i))));
    }
  }
}
