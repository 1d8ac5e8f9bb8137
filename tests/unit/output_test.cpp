// Outputs of few queries, whose sums are scaled as larger values are met.

#include "pass/output.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

constexpr Index few = 3, width = 5;

template <class T>
std::vector<T> normal_numbers(Index count, Random& random) {
  std::uniform_real_distribution<double> uniform(0.5, 1);
  std::vector<T> numbers;
  for (Index n = 0; n < count; ++n) numbers.push_back(static_cast<T>(uniform(random)));
  return numbers;
}

// The output for given weights (few, keys), shown by tiles of 100 keys.
template <class T>
std::vector<T> output_of(const std::vector<T>& weights, const std::vector<T>& v, Index keys) {
  std::vector<T> out(few * width);
  Output<T> output({v.data(), keys, width}, {out.data(), few, width});
  output.start(row_tile_partition(few, keys));
  for (Index first = 0; first < keys; first += 100) {
    const TileRange range{0, few, first, std::min<Index>(100, keys - first)};
    const MatrixView<const T> tile(weights.data() + first, few, range.cols, keys);
    output.observe(WeightTile<T>{range, tile}, 0);
  }
  output.finish();
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("values of any size from key to key", T, float, double) {
  Random random(181);
  constexpr Index keys = 333;
  constexpr int largest = std::numeric_limits<T>::max_exponent - 10;
  const int sizes[] = {-largest, 0, -60, 25, largest, 3, -largest};
  auto weights = normal_numbers<T>(few * keys, random);
  // The last query gives no weight to larger keys than those of size 1.
  for (Index j = 128; j < keys; ++j) weights[static_cast<std::size_t>(2 * keys + j)] = 0;
  for (const bool reversed : {false, true}) {
    auto v = normal_numbers<T>(keys * width, random);
    for (Index j = 0; j < keys; ++j) {
      const Index run = (reversed ? keys - 1 - j : j) / 64;
      for (Index c = 0; c < width; ++c) {
        T& value = v[static_cast<std::size_t>(j * width + c)];
        value = std::ldexp(value, sizes[run]);
      }
    }
    const auto out = output_of(weights, v, keys);
    for (Index i = 0; i < few; ++i) {
      for (Index c = 0; c < width; ++c) {
        long double want = 0;
        for (Index j = 0; j < keys; ++j) {
          want += static_cast<long double>(weights[static_cast<std::size_t>(i * keys + j)]) *
                  v[static_cast<std::size_t>(j * width + c)];
        }
        const long double got = out[static_cast<std::size_t>(i * width + c)];
        // All terms are positive: one rounding for each.
        CHECK(std::abs(got - want) <= keys * std::numeric_limits<T>::epsilon() * want);
      }
    }
  }
}

TEST_CASE_TEMPLATE("values without weight do not count, bit for bit", T, float, double) {
  Random random(182);
  constexpr Index keys = 150, own = 96;
  constexpr int largest = std::numeric_limits<T>::max_exponent - 10;
  auto weights = normal_numbers<T>(few * keys, random);
  auto v = normal_numbers<T>(keys * width, random);
  for (Index j = 0; j < keys; ++j) {
    for (Index c = 0; c < width; ++c) {
      T& value = v[static_cast<std::size_t>(j * width + c)];
      value = std::ldexp(value, j < own ? -largest : largest);
    }
    if (j >= own) {
      for (Index i = 1; i < few; ++i) weights[static_cast<std::size_t>(i * keys + j)] = 0;
    }
  }
  std::vector<T> own_weights;
  for (Index i = 0; i < few; ++i) {
    const auto first = weights.begin() + i * keys;
    own_weights.insert(own_weights.end(), first, first + own);
  }
  const auto all = output_of(weights, v, keys);
  const auto alone = output_of(own_weights, v, own);
  for (std::size_t n = width; n < all.size(); ++n) CHECK(all[n] == alone[n]);
  CHECK(all[0] > 1);
}
