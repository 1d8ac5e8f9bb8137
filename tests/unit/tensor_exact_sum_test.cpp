#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "random_problem.hpp"
#include "tensor/exact_sum.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

ExactSum exact_sum_of(const std::vector<double>& terms, std::size_t first, std::size_t last) {
  ExactSum sum;
  for (std::size_t n = first; n < last; ++n) sum.add(terms[n]);
  return sum;
}

}  // namespace

TEST_CASE("an exact sum depends neither on the order nor on its parts") {
  Random random(31);
  using limits = std::numeric_limits<double>;
  std::vector<double> terms = {0, limits::denorm_min(), limits::min(), 3 * limits::denorm_min(), 1};
  std::uniform_real_distribution<double> exponent(-1100, 1000);
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (int n = 0; n < 500; ++n) {
    terms.push_back(std::ldexp(mantissa(random), static_cast<int>(exponent(random))));
  }
  const ExactSum whole = exact_sum_of(terms, 0, terms.size());
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{77}, terms.size()}) {
    ExactSum parts = exact_sum_of(terms, cut, terms.size());
    parts.add(exact_sum_of(terms, 0, cut));
    CHECK(parts.digits() == whole.digits());
  }
  std::vector<double> sorted = terms;
  std::sort(sorted.begin(), sorted.end());
  CHECK(exact_sum_of(sorted, 0, sorted.size()).digits() == whole.digits());
  CHECK(ExactSum(whole.digits()).value() == whole.value());
  const double expected = [&] {
    long double sum = 0;
    for (const double term : sorted) sum += term;
    return static_cast<double>(sum);
  }();
  CHECK(std::abs(whole.value() - expected) <= 1e-15 * expected);
}

TEST_CASE("an exact sum of one number, or of integers, is exact") {
  using limits = std::numeric_limits<double>;
  for (const double term : {0.0, 1.0, 0.1, 1e-300, 1e300, limits::denorm_min(), limits::min(),
                            limits::min() / 4, limits::max(), 5 * limits::denorm_min()}) {
    ExactSum sum;
    sum.add(term);
    CHECK(sum.value() == term);
  }
  ExactSum small;
  for (int n = 0; n < 1000; ++n) small.add(limits::denorm_min());
  CHECK(small.value() == 1000 * limits::denorm_min());
  ExactSum large;
  for (int n = 0; n < 3; ++n) large.add(limits::max());
  CHECK(std::isinf(large.value()));
  ExactSum carried;
  for (int n = 0; n < 4097; ++n) carried.add(4294967295.0);
  CHECK(carried.value() == 4097.0 * 4294967295.0);
}
