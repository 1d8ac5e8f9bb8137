#include "sinkhorn/soft_marginals.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "infinity.hpp"

using namespace attn;

TEST_CASE("terms of KL keep their digits however near the two numbers are") {
  for (const double y : {1e-200, 0.3, 1.0, 7e9}) {
    CHECK(kl_term(0, y) == y);
    CHECK(kl_term(y, y) == 0);
    CHECK(kl_term(y, 0) == infinity);
    for (const double apart :
         {-0.9, -0.1, -1.01e-3, -0.99e-3, -1e-6, 1e-7, 0.99e-3, 1.01e-3, 0.5, 30.0}) {
      const double x = y * (1 + apart);
      // The series of (1 + d) log(1 + d) − d where the logarithm would lose its digits.
      const long double d = (static_cast<long double>(x) - y) / y;
      long double want = (1 + d) * std::log1p(d) - d;
      if (std::abs(d) < 1e-2L) {
        want = 0;
        for (int n = 12; n >= 2; --n) {
          want +=
              std::pow(-d, static_cast<long double>(n)) / (static_cast<long double>(n) * (n - 1));
        }
      }
      CAPTURE(y);
      CAPTURE(apart);
      CHECK(kl_term(x, y) == doctest::Approx(static_cast<double>(want * y)).epsilon(1e-11));
    }
  }
}

TEST_CASE("the translation maximises the dual") {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const auto draw = [&](std::size_t size) {
    std::vector<double> values(size);
    for (double& value : values) value = normal(random);
    return values;
  };
  for (const MarginalPenalties penalties : {MarginalPenalties{1, 1}, {0.2, 30}, {400, 5}}) {
    std::vector<double> log_a = draw(7);
    std::vector<double> f = draw(7);
    const std::vector<double> log_b = draw(4);
    const std::vector<double> g = draw(4);
    log_a[2] = f[2] = -infinity;  // a closed row
    // The terms of the dual that depend on t; the plan is that of any t.
    const auto dual = [&](double t) {
      long double value = 0;
      for (std::size_t i = 0; i < f.size(); ++i) {
        if (i != 2) value -= penalties.row * std::exp(log_a[i] + (f[i] - t) / penalties.row);
      }
      for (std::size_t j = 0; j < g.size(); ++j) {
        value -= penalties.col * std::exp(log_b[j] + (g[j] + t) / penalties.col);
      }
      return static_cast<double>(value);
    };
    const double t = soft_translation(penalties, log_soft_mass(log_a, f, penalties.row),
                                      log_soft_mass(log_b, g, penalties.col));
    for (const double away : {-1.0, -1e-2, 1e-2, 1.0}) CHECK(dual(t + away) < dual(t));
    // The masses are then equal.
    CHECK(log_soft_mass(log_a, f, penalties.row) - t / penalties.row ==
          doctest::Approx(log_soft_mass(log_b, g, penalties.col) + t / penalties.col));
  }
  const MarginalPenalties penalties{1, 1};
  CHECK(soft_translation(penalties, -infinity, 0) == 0);
  CHECK(soft_translation(penalties, -infinity, -infinity) == 0);
  CHECK(soft_translation({1e300, 1e300}, 1, 0) == doctest::Approx(5e299));
}

TEST_CASE("soft sums and masses of closed lines") {
  CHECK(soft_sum(-infinity, -infinity, 2) == 0);
  CHECK(soft_sum(0.5, -infinity, 2) == 0);
  CHECK(soft_sum(0.5, 3, 2) == doctest::Approx(std::exp(2.0)));
  const std::vector<double> closed(3, -infinity);
  CHECK(log_soft_mass({}, closed, 2) == -infinity);
  CHECK(log_soft_mass({}, {}, 2) == -infinity);
  // Beyond the range of exp.
  const std::vector<double> large = {4000, 4000, -infinity};
  CHECK(log_soft_mass({}, large, 2) == doctest::Approx(2000 + std::log(2)));
}
