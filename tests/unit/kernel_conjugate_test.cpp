#include "kernel/conjugate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernel/factor.hpp"
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

TEST_CASE("Cholesky factors solve, and refuse what is not positive definite") {
  Random random(84);
  for (const Index n : {0, 1, 2, 7, 40, 150}) {
    CAPTURE(n);
    const std::vector<double> a = numbers<double>(random, (n + 5) * n, -1, 1);
    std::vector<double> h(static_cast<std::size_t>(n * n), 0.0);
    for (Index i = 0; i < n; ++i) h[static_cast<std::size_t>(i * n + i)] = 1;
    kernel::add_gram({a.data(), n + 5, n}, 0.5, {h.data(), n, n});
    const std::vector<double> want = numbers<double>(random, n, -1, 1);
    std::vector<double> right(want.size(), 0.0);
    const auto at = [&](Index i, Index j) {
      return h[static_cast<std::size_t>(std::max(i, j) * n + std::min(i, j))];
    };
    double norm = 0;
    for (Index i = 0; i < n; ++i) {
      double row = 0;
      for (Index j = 0; j < n; ++j) {
        right[static_cast<std::size_t>(i)] += at(i, j) * want[static_cast<std::size_t>(j)];
        row += std::abs(at(i, j));
      }
      norm = std::max(norm, row);
    }
    REQUIRE(kernel::cholesky({h.data(), n, n}));
    kernel::cholesky_solve({h.data(), n, n}, right.data());
    for (std::size_t i = 0; i < want.size(); ++i) {
      // The smallest eigenvalue is at least 1: the condition is at most the norm.
      const double allowed = 1e-16 * static_cast<double>(n * n) * norm + 1e-15;
      CHECK(std::abs(right[i] - want[i]) <= allowed);
    }
  }
  double indefinite[] = {1, 0, 2, 1};
  CHECK_FALSE(kernel::cholesky({indefinite, 2, 2}));
}

TEST_CASE("orthonormal bases of rows") {
  Random random(85);
  for (const auto& [n, d] : {std::pair<Index, Index>{0, 3}, {1, 1}, {1, 5}, {4, 4}, {7, 90}}) {
    const std::vector<double> a = numbers<double>(random, n * d, -1, 1);
    std::vector<double> basis = a;
    std::vector<double> coordinates(static_cast<std::size_t>(n * n));
    kernel::orthonormal_rows({basis.data(), n, d}, {coordinates.data(), n, n});
    const Index width = d;  // a lambda takes no binding
    const auto row = [&](Index i) { return basis.data() + i * width; };
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        CHECK(std::abs(kernel::dot(row(i), row(j), d) - (i == j ? 1 : 0)) <= 1e-14);
      }
      for (Index c = 0; c < d; ++c) {
        double back = 0;
        for (Index j = 0; j < n; ++j)
          back += coordinates[static_cast<std::size_t>(i * n + j)] * row(j)[c];
        CHECK(std::abs(back - a[static_cast<std::size_t>(i * d + c)]) <=
              1e-14 * static_cast<double>(d));
      }
    }
  }
}
