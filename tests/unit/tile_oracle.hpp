#pragma once

// Helpers of the tests of lib/kernel/tile.hpp: all instruction sets in turn, inputs, and error
// bounds.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "guarded.hpp"
#include "infinity.hpp"
#include "kernel/targets.hpp"
#include "kernel/tile.hpp"

namespace attn::tile_oracle {

using Random = std::mt19937_64;
using testing::infinity;

inline constexpr Index tile_sizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 513};

// Half a unit in the last place of a number of size 1: the relative error of one rounding.
template <class T>
constexpr long double rounding = std::numeric_limits<T>::epsilon() / 2.0L;

// The unit in the last place of T at `value`, that of the smallest numbers included.
template <class T>
long double ulp(long double value) {
  using Limits = std::numeric_limits<T>;
  int exponent = Limits::min_exponent;
  if (value != 0) std::frexp(value, &exponent);
  return std::ldexp(1.0L, std::max(exponent, Limits::min_exponent) - Limits::digits);
}

// The largest error in units of its bound. NaN counts as infinite and stays.
class Worst {
 public:
  void add(long double got, long double want, long double allowed) {
    const long double error = got == want ? 0 : std::abs(got - want) / allowed;
    if (!(error <= worst_)) worst_ = std::isnan(error) ? infinity : error;
  }
  void require(bool holds) { worst_ = holds ? worst_ : infinity; }
  double value() const { return static_cast<double>(worst_); }

 private:
  long double worst_ = 0;
};

// Runs `body` on every instruction set that was compiled and that this CPU has.
template <class Body>
void on_every_target(const Body& body) {
  const auto targets = kernel::available_targets();
  REQUIRE(!targets.empty());
  for (const std::int64_t target : targets) {
    const kernel::UseTarget use(target);
    const std::string in_use = kernel::simd_description();
    CAPTURE(in_use);
    REQUIRE(in_use == hwy::TargetName(target));
    body();
  }
}

inline double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

template <class T>
testing::Guarded<T> uniform_matrix(Index rows, Index cols, Random& random, double size = 1) {
  testing::Guarded<T> values(rows, cols, 1 + rows % 3);
  values.fill([&] { return static_cast<T>(uniform(random, -size, size)); });
  return values;
}

inline bool one_in(Random& random, int n) {
  return std::uniform_int_distribution<int>(1, n)(random) == n;
}

// A potential: small, huge, or that of a closed line.
inline double potential(Random& random) {
  if (one_in(random, 10)) return infinity;
  if (one_in(random, 3)) return one_in(random, 2) ? 5000 + uniform(random, -1, 1) : -1e4;
  return uniform(random, -10, 10);
}

template <class T>
T score(Random& random) {
  if (one_in(random, 8)) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(uniform(random, -1, 1) * (one_in(random, 4) ? 1e4 : 10.0));
}

// A score for which exp((s − g) − shift) lies anywhere from nothing to almost the largest T.
template <class T>
T score_near(Random& random, double potentials) {
  constexpr bool is_float = sizeof(T) == sizeof(float);
  if (one_in(random, 8)) return -std::numeric_limits<T>::infinity();
  const double x = is_float ? uniform(random, -110, 80) : uniform(random, -760, 700);
  return static_cast<T>(x + (std::isinf(potentials) ? 0 : potentials));
}

// (s − g) − shift, −inf where anything closes it.
template <class T>
long double difference(T s, double g, double shift) {
  if (std::isinf(s) || g == infinity || shift == infinity) return -infinity;
  return (static_cast<long double>(s) - g) - shift;
}

// The error of an exponential may be its own ulp, plus the effect of rounding its argument to T,
// and the two differences before that to float64. `flushes`: results below the smallest normal
// number of float32 may be 0.
template <class T>
void add_exponential(Worst& worst, T got, T s, double g, double shift, bool flushes = false) {
  const long double x = difference(s, g, shift);
  if (std::isinf(x)) {
    worst.require(got == 0);
    return;
  }
  const long double want = std::exp(x);
  if (flushes && got == 0 && want < 1.01L * std::numeric_limits<float>::min()) return;
  const long double first = g == 0 ? 0 : std::abs(static_cast<long double>(s) - g);
  const long double argument = rounding<T> * std::abs(x) + rounding<double> * (first + std::abs(x));
  worst.add(got, want, ulp<T>(want) + want * argument);
}

// Σ of n terms >= 0: at most 64 in T for a lane, all others in float64.
template <class T>
long double sum_error(long double sum, Index n) {
  return sum * (64 * rounding<T> + static_cast<long double>(n + 2) * rounding<double>);
}

// Checks exponentials of scores, within 1.2 ulp, and the sums of them that were added to `before`:
// by row, by column, and by row of each exponential times its score. Absent sums are null.
template <class T>
void check_exponentials(MatrixView<const T> scores, MatrixView<const T> found, double before,
                        const double* by_row, const double* by_col, const double* products) {
  Worst exponentials;
  Worst sums;
  std::vector<long double> of_cols(static_cast<std::size_t>(scores.cols), before);
  for (Index i = 0; i < scores.rows; ++i) {
    long double of_row = before;
    long double of_products = before;
    long double magnitude = std::abs(before);
    for (Index j = 0; j < scores.cols; ++j) {
      const long double e = found(i, j);
      const auto want = std::exp(static_cast<long double>(scores(i, j)));
      const long double term = e * static_cast<long double>(scores(i, j));
      exponentials.add(e, want, 1.2L * ulp<T>(want));
      of_row += e;
      of_cols[static_cast<std::size_t>(j)] += e;
      of_products += term;
      magnitude += std::abs(term);
    }
    if (by_row != nullptr) sums.add(by_row[i], of_row, sum_error<T>(of_row, scores.cols));
    if (products != nullptr) {
      sums.add(products[i], of_products,
               sum_error<T>(magnitude, scores.cols) + 2 * rounding<T> * magnitude);
    }
  }
  for (Index j = 0; by_col != nullptr && j < scores.cols; ++j) {
    const long double want = of_cols[static_cast<std::size_t>(j)];
    sums.add(by_col[j], want, sum_error<T>(want, scores.rows));
  }
  CHECK(exponentials.value() <= 1);
  CHECK(sums.value() <= 1);
}

}  // namespace attn::tile_oracle
