#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/random.hpp"

using namespace attn;

namespace {

std::vector<double> normals(const RandomStream& stream, Index first, Index count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  stream.normal(first, count, values.data());
  return values;
}

std::vector<double> uniforms(const RandomStream& stream, Index first, Index count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  stream.uniform(first, count, values.data());
  return values;
}

}  // namespace

TEST_CASE("values of an independent implementation") {
  // From an independent implementation of Philox4x32-10 and FNV-1a in Python, with its math.log,
  // cos and sin.
  struct Known {
    std::uint64_t seed;
    const char* name;
    Index index;
    double uniform;
    double normal;
  };
  const Known known[] = {
      {0, "q", 0, 0.42735843007447316, 1.2762528548836949},
      {0, "q", 1, 0.9671427425650647, -0.26728834007972774},
      {0, "k", 0, 0.37018385747262594, -0.6111460413659445},
      {1, "q", 0, 0.23223894707332593, -1.6862766528510738},
      {std::numeric_limits<std::uint64_t>::max(), "label", (Index{1} << 40) + 7,
       0.29229965017198056, 0.7508407725445502},
      {0, "q", 123456789, 0.9204833443445803, -0.6218949641577877},
  };
  for (const Known& value : known) {
    CAPTURE(value.name);
    CAPTURE(value.index);
    const RandomStream stream(value.seed, value.name);
    CHECK(uniforms(stream, value.index, 1)[0] == value.uniform);
    CHECK(std::fabs(normals(stream, value.index, 1)[0] - value.normal) <= 1e-15);
  }
}

TEST_CASE("the bits never change") {
  // The same from g++ 12 and clang 14, at -O0 to -O3, with and without AVX-512 and FMA.
  std::uint64_t hash = 0;
  for (const double value : normals(RandomStream(0, "q"), 0, 100000)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    hash = (hash ^ word) * 0x100000001b3U;
  }
  CHECK(hash == 13260466288946143338U);
}

TEST_CASE("any range of a stream is reproducible by itself") {
  const RandomStream stream(7, "x");
  const std::vector<double> all = normals(stream, 0, 3000);
  const std::vector<double> flat = uniforms(stream, 0, 3000);
  for (const Index first : {0, 1, 2, 511, 512, 513, 1999}) {
    for (const Index count : {0, 1, 2, 3, 510, 511, 512, 513, 1000}) {
      const std::vector<double> part = normals(stream, first, count);
      CHECK(std::equal(part.begin(), part.end(), all.begin() + first));
      const std::vector<double> flat_part = uniforms(stream, first, count);
      CHECK(std::equal(flat_part.begin(), flat_part.end(), flat.begin() + first));
    }
  }
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  constexpr Index count = 1000000;
  double sum[5] = {};
  double neighbours = 0;
  double largest = 0;
  const std::vector<double> values = normals(RandomStream(1, "x"), 0, count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double power = 1;
    for (double& s : sum) {
      s += power;
      power *= values[i];
    }
    if (i > 0) neighbours += values[i] * values[i - 1];
    largest = std::max(largest, std::fabs(values[i]));
  }
  CHECK(largest > 4);
  CHECK(largest < 6);
  // Five standard errors: the variances of x, x^2, x^3, x^4 are 1, 2, 15, 96.
  const double error = 5 / std::sqrt(static_cast<double>(count));
  CHECK(std::fabs(sum[1] / count) < error);
  CHECK(std::fabs(sum[2] / count - 1) < std::sqrt(2.0) * error);
  CHECK(std::fabs(sum[3] / count) < std::sqrt(15.0) * error);
  CHECK(std::fabs(sum[4] / count - 3) < std::sqrt(96.0) * error);
  CHECK(std::fabs(neighbours / count) < error);
}

TEST_CASE("uniform numbers fill [0, 1) evenly") {
  constexpr Index count = 1000000;
  constexpr int bins = 100;
  double counts[bins] = {};
  for (const double value : uniforms(RandomStream(2, "x"), 0, count)) {
    if (!(value >= 0 && value < 1)) FAIL(value);
    counts[static_cast<int>(value * bins)] += 1;
  }
  double chi_square = 0;
  for (const double n : counts) {
    chi_square += (n - count / bins) * (n - count / bins) / (count / bins);
  }
  // 99 degrees of freedom: mean 99, standard deviation 14.
  CHECK(chi_square > 99 - 5 * 14);
  CHECK(chi_square < 99 + 5 * 14);
}

TEST_CASE("streams with different names or seeds are independent") {
  const Index count = 100000;
  const std::vector<double> a = normals(RandomStream(0, "q"), 0, count);
  for (const RandomStream& other : {RandomStream(0, "k"), RandomStream(1, "q")}) {
    const std::vector<double> b = normals(other, 0, count);
    double product = 0;
    for (std::size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
    CHECK(std::fabs(product / static_cast<double>(count)) < 5 / std::sqrt(1e5));
  }
}
