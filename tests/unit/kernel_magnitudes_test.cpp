#include "kernel/magnitudes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;

TEST_CASE_TEMPLATE("magnitudes of numbers, with one special number anywhere", T, float, double) {
  using Limits = std::numeric_limits<T>;
  on_every_target([] {
    Random random(93);
    for (const Index n : tile_sizes) {
      for (const T special : {T{0.5}, T{-0.5}, T{-0.0}, Limits::infinity(), -Limits::infinity(),
                              Limits::quiet_NaN(), -Limits::max(), Limits::denorm_min()}) {
        std::vector<T> x;
        for (Index j = 0; j < n; ++j) x.push_back(static_cast<T>(uniform(random, 0, 2)));
        const auto place = n == 0 ? 0 : random() % static_cast<std::uint64_t>(n);
        if (n > 0) x[place] = special;
        T want_largest = 0;
        bool want_negative = false;
        bool want_finite = true;
        for (const T value : x) {
          want_finite = want_finite && std::isfinite(value);
          want_negative = want_negative || std::signbit(value);
          if (std::isfinite(value)) want_largest = std::max(want_largest, std::abs(value));
        }
        T largest = -1;
        bool negative = false;
        CAPTURE(n);
        CAPTURE(special);
        CHECK(kernel::magnitudes(x.data(), n, &largest, &negative) == want_finite);
        CHECK(largest == want_largest);
        CHECK(negative == want_negative);
      }
    }
  });
}

TEST_CASE_TEMPLATE("squared_norm and largest_magnitude", T, float, double) {
  on_every_target([] {
    Random random(73);
    for (const Index n : tile_sizes) {
      const auto x = uniform_matrix<T>(1, n, random);
      long double want = 0;
      for (Index j = 0; j < n; ++j) want += static_cast<long double>(x.data()[j]) * x.data()[j];
      T largest = 0;
      for (Index j = 0; j < n; ++j) largest = std::max(largest, std::abs(x.data()[j]));
      CHECK(kernel::largest_magnitude(x.data(), n) == largest);
      CHECK(std::abs(kernel::squared_norm(x.data(), n) - want) <=
            static_cast<long double>(n + 1) * rounding<double> * want);
    }
    // Rows apart, with larger numbers between them.
    for (const Index cols : tile_sizes) {
      auto whole = uniform_matrix<T>(3, cols + 1, random);
      T largest = 0;
      for (Index i = 0; i < 3; ++i) {
        whole.view()(i, cols) = 100;
        for (Index j = 0; j < cols; ++j) largest = std::max(largest, std::abs(whole.view()(i, j)));
      }
      const MatrixView<const T> part(whole.data(), 3, cols, whole.view().row_stride);
      CHECK(kernel::largest_magnitude(part) == largest);
    }
    const T huge = std::numeric_limits<T>::max();
    CHECK(kernel::squared_norm(&huge, 1) >= static_cast<double>(huge));
  });
}
