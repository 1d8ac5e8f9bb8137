#include "kernel/activation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;

TEST_CASE_TEMPLATE("GELU and its slope against erf", T, float, double) {
  on_every_target([] {
    Random random(92);
    for (const Index n : tile_sizes) {
      CAPTURE(n);
      std::vector<T> x;
      std::vector<T> dy;
      for (Index j = 0; j < n; ++j) {
        x.push_back(static_cast<T>(uniform(random, -6, 6)));
        dy.push_back(static_cast<T>(uniform(random, -1, 1)));
      }
      std::vector<T> y = x;
      kernel::gelu(y.data(), n, y.data());
      std::vector<T> dx = dy;
      kernel::gelu_slope(x.data(), n, dx.data());
      Worst error;
      for (std::size_t j = 0; j < x.size(); ++j) {
        const auto v = static_cast<long double>(x[j]);
        const long double below = (1 + std::erf(v / std::sqrt(2.0L))) / 2;
        const long double density =
            std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi_v<long double>);
        error.add(y[j], v * below, 4 * rounding<T> * std::max(std::abs(v), 1e-3L));
        error.add(dx[j], dy[j] * (below + v * density), 8 * rounding<T>);
      }
      CHECK(error.value() <= 1);
    }
  });
}

TEST_CASE_TEMPLATE("tanh and the logistic function of rows", T, float, double) {
  on_every_target([] {
    Random random(93);
    for (const Index n : tile_sizes) {
      CAPTURE(n);
      std::vector<T> x;
      for (Index j = 0; j < n; ++j) {
        x.push_back(
            static_cast<T>(j % 7 == 6 ? uniform(random, -1e4, 1e4) : uniform(random, -9, 9)));
      }
      std::vector<T> y(x.size());
      kernel::tanh_row(x.data(), n, y.data());
      std::vector<T> sigma = x;
      kernel::logistic_row(sigma.data(), n, sigma.data());
      Worst error;
      for (std::size_t j = 0; j < x.size(); ++j) {
        const auto v = static_cast<long double>(x[j]);
        error.add(y[j], std::tanh(v), 8 * rounding<T> * std::abs(std::tanh(v)));
        error.add(sigma[j], 1 / (1 + std::exp(-v)), 2 * rounding<T>);
      }
      CHECK(error.value() <= 1);
    }
  });
}

TEST_CASE_TEMPLATE("GELU far from 0 and at NaN", T, float, double) {
  on_every_target([] {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> x = {T{0}, T{-40}, T{40}, T{-1e6}, T{1e6}, nan};
    std::vector<T> y(x.size());
    kernel::gelu(x.data(), static_cast<Index>(x.size()), y.data());
    std::vector<T> slope(x.size(), T{1});
    kernel::gelu_slope(x.data(), static_cast<Index>(x.size()), slope.data());
    CHECK(y[0] == 0);
    CHECK(std::abs(y[1]) < T{40} * 4 * static_cast<T>(rounding<T>));
    CHECK(y[2] == T{40});
    CHECK(y[4] == T{1e6});
    CHECK(slope[0] == T{0.5});
    CHECK(std::abs(slope[3]) < 8 * static_cast<T>(rounding<T>));
    CHECK(slope[4] == T{1});
    CHECK(std::isnan(y[5]));
    CHECK(std::isnan(slope[5]));
  });
}
