#include "kernel/dropout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "tensor/random.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;

namespace {

constexpr std::string_view stream_name = "a stream";

// The stream that RandomStream reads under that name: FNV-1a, 64 bits.
std::uint64_t number_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

template <class T>
std::vector<T> dropped(Index first, Index n, double rate, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(n), T{3});
  kernel::dropout(x.data(), first, n, rate, {seed, number_of(stream_name)});
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("dropout removes what Philox says", T, float, double) {
  on_every_target([] {
    // RandomStream's number 2p + h holds word 4p + 2h + 1 in its 32 upper bits.
    constexpr std::uint64_t seed = 0x123456789abcdef0U;
    const double rate = 0.3;
    std::vector<double> drawn(700);
    RandomStream(seed, stream_name).uniform(0, 700, drawn.data());
    const std::vector<T> x = dropped<T>(0, 1400, rate, seed);
    const T kept = T{3} * static_cast<T>(1 / (1 - rate));
    bool equal = true;
    for (std::size_t n = 0; n < drawn.size(); ++n) {
      const double word = std::floor(drawn[n] * 0x1p32);
      equal = equal && x[2 * n + 1] == (word < std::round(rate * 0x1p32) ? T{0} : kept);
    }
    CHECK(equal);
  });
}

TEST_CASE_TEMPLATE("any part of a stream has the same fate", T, float, double) {
  on_every_target([] {
    const std::vector<T> whole = dropped<T>(0, 3000, 0.5, 7);
    for (const Index first : {0, 1, 2, 3, 4, 511, 513, 1024}) {
      for (const Index n : {0, 1, 5, 512, 1030}) {
        CAPTURE(first);
        CAPTURE(n);
        const std::vector<T> part = dropped<T>(first, n, 0.5, 7);
        CHECK(std::equal(part.begin(), part.end(), whole.begin() + first));
      }
    }
  });
}

TEST_CASE("dropout removes the share asked for, and differs by seed and stream") {
  const Index n = 100000;
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    CAPTURE(rate);
    const std::vector<float> x = dropped<float>(0, n, rate, 11);
    const auto removed = static_cast<double>(std::count(x.begin(), x.end(), 0.0F));
    // Five standard deviations of a binomial.
    CHECK(std::abs(removed / n - rate) <= 5 * std::sqrt(rate * (1 - rate) / n));
  }
  CHECK(dropped<float>(0, 64, 0.5, 1) != dropped<float>(0, 64, 0.5, 2));
  std::vector<float> other(64, 3.0F);
  kernel::dropout(other.data(), 0, 64, 0.5, {1, 5});
  CHECK(dropped<float>(0, 64, 0.5, 1) != other);
}
