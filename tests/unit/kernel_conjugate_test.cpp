#include "kernel/conjugate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;

namespace {

template <class T>
std::vector<T> numbers(Random& random, Index n, double low, double high) {
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) values.push_back(static_cast<T>(uniform(random, low, high)));
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("inner products and sums of vectors", T, float, double) {
  on_every_target([] {
    Random random(81);
    for (const Index n : tile_sizes) {
      CAPTURE(n);
      const std::vector<T> x = numbers<T>(random, n, -1, 1);
      const std::vector<T> y = numbers<T>(random, n, -1, 1);
      const T by = static_cast<T>(-0.7);
      std::vector<T> added = x;
      kernel::axpy(added.data(), y.data(), n, by);
      std::vector<T> turned = y;
      kernel::xpby(turned.data(), x.data(), n, by);
      long double want = 0;
      long double size = 0;
      Worst error;
      for (std::size_t i = 0; i < x.size(); ++i) {
        want += static_cast<long double>(x[i]) * y[i];
        size += std::abs(static_cast<long double>(x[i]) * y[i]);
        const long double sum = x[i] + static_cast<long double>(by) * y[i];
        error.add(added[i], sum, 2 * rounding<T> * 2);
        error.add(turned[i], sum, 2 * rounding<T> * 2);
      }
      // Fused terms, by lane.
      error.add(kernel::dot(x.data(), y.data(), n), want,
                (static_cast<long double>(n) + 2) * rounding<T> * size);
      CHECK(error.value() <= 1);
    }
  });
}

TEST_CASE_TEMPLATE("covariances of weights times a vector", T, float, double) {
  on_every_target([] {
    Random random(82);
    for (const Index n : tile_sizes) {
      if (n == 0) continue;
      CAPTURE(n);
      std::vector<T> p = numbers<T>(random, n, 0, 1);
      T total = 0;
      for (const T value : p) total += value;
      for (T& value : p) value /= total;
      const std::vector<T> a = numbers<T>(random, n, -1, 1);
      std::vector<T> found = a;
      const double variance = kernel::multiply_covariance(p.data(), found.data(), n);
      long double mean = 0;
      for (std::size_t i = 0; i < a.size(); ++i) mean += static_cast<long double>(p[i]) * a[i];
      // The mean is a sum of n terms; its error is multiplied by p.
      const long double allowed = (static_cast<long double>(n) + 8) * rounding<T>;
      Worst error;
      long double want = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        error.add(found[i], p[i] * (a[i] - mean), allowed * 2 * p[i]);
        want += p[i] * (a[i] - mean) * (a[i] - mean);
      }
      error.add(variance, want, allowed * 4);
      CHECK(variance >= 0);
      CHECK(error.value() <= 1);
    }
  });
}

TEST_CASE("spreads of the unmasked columns") {
  on_every_target([] {
    Random random(83);
    for (const Index n : tile_sizes) {
      CAPTURE(n);
      const std::vector<double> x = numbers<double>(random, n, -1, 1);
      std::vector<double> closed;
      double low = infinity;
      double high = -infinity;
      double all_low = infinity;
      double all_high = -infinity;
      for (const double value : x) {
        closed.push_back(one_in(random, 3) ? infinity : 700);
        all_low = std::min(all_low, value);
        all_high = std::max(all_high, value);
        if (closed.back() == infinity) continue;
        low = std::min(low, value);
        high = std::max(high, value);
      }
      CHECK(kernel::spread_of_open(x.data(), closed.data(), n) == (high >= low ? high - low : 0));
      CHECK(kernel::spread_of_open(x.data(), nullptr, n) == (n > 0 ? all_high - all_low : 0));
    }
  });
}
