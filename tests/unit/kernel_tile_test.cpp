#include "kernel/tile.hpp"

#include <doctest/doctest.h>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

template <class T>
void check_exp_row(Random& random, Index n, bool with_g, bool in_place) {
  // Without g the shift is a value of T, by contract.
  const double shift = one_in(random, 12) ? infinity
                       : with_g           ? potential(random)
                                : static_cast<double>(static_cast<T>(uniform(random, -10, 10)));
  Guarded<double> g(1, n);
  g.fill([&] { return with_g ? potential(random) : 0; });
  Guarded<T> s(1, n);
  for (Index j = 0; j < n; ++j) s.data()[j] = score_near<T>(random, g.data()[j] + shift);
  const Guarded<T> before = s;
  Guarded<T> other(1, n);
  Guarded<T>& out = in_place ? s : other;
  const double sum = kernel::exp_row(out.data(), s.data(), n, with_g ? g.data() : nullptr, shift);

  Worst exponentials;
  long double total = 0;
  for (Index j = 0; j < n; ++j) {
    add_exponential(exponentials, out.data()[j], before.data()[j], g.data()[j], shift);
    total += out.data()[j];
  }
  CAPTURE(n);
  CAPTURE(with_g);
  CAPTURE(in_place);
  CHECK(exponentials.value() <= 1);
  CHECK(std::abs(sum - total) <= sum_error<T>(total, n));
  CHECK(out.intact());
}

}  // namespace

TEST_CASE("every instruction set of this CPU is tested, and the selection is restored") {
  const std::string best = kernel::simd_description();
  const auto targets = kernel::available_targets();
  REQUIRE(!targets.empty());
  CHECK(best == hwy::TargetName(targets.front()));  // Highway lists the best first
  std::size_t tested = 0;
  on_every_target([&] { ++tested; });
  CHECK(tested == targets.size());
  CHECK(kernel::simd_description() == best);
}

TEST_CASE_TEMPLATE("row_max", T, float, double) {
  on_every_target([] {
    Random random(31);
    for (const Index n : tile_sizes) {
      Guarded<T> s(1, n);
      s.fill([&] { return score<T>(random); });
      Guarded<double> g(1, n);
      g.fill([&] { return potential(random); });
      double plain = -infinity;
      double shifted = -infinity;
      for (Index j = 0; j < n; ++j) {
        const auto value = static_cast<double>(s.data()[j]);
        plain = std::max(plain, value);
        shifted = std::max(shifted, value - g.data()[j]);
      }
      CAPTURE(n);
      // One rounding to float64 and comparisons: exact.
      CHECK(kernel::row_max(s.data(), n, nullptr) == plain);
      CHECK(kernel::row_max(s.data(), n, g.data()) == shifted);
      // The largest element may be anywhere, also in the last incomplete vector.
      for (Index j = 0; j < n; ++j) {
        const T kept = s.data()[j];
        s.data()[j] = T{30000};
        CHECK(kernel::row_max(s.data(), n, nullptr) == 30000);
        s.data()[j] = kept;
      }
      g.fill([] { return infinity; });
      CHECK(kernel::row_max(s.data(), n, g.data()) == -infinity);
    }
  });
}

TEST_CASE_TEMPLATE("exp_row", T, float, double) {
  on_every_target([] {
    Random random(32);
    for (const Index n : tile_sizes) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        check_exp_row<T>(random, n, repeat % 2 == 0, repeat % 4 < 2);
      }
    }
  });
}

TEST_CASE_TEMPLATE("differences are taken left to right in float64", T, float, double) {
  // (2^54 − (2^54 − 2)) − 1 = 1, but the sum of the potentials rounds to 2^54 or 2^54 − 2.
  const double large = std::ldexp(1.0, 54);
  const double g = large - 2;
  const double shift = 1;
  on_every_target([&] {
    T s[] = {static_cast<T>(large)};
    const double sum = kernel::exp_row(s, s, 1, &g, shift);
    CHECK(std::abs(s[0] - std::exp(1.0L)) <= ulp<T>(3));
    CHECK(sum == static_cast<double>(s[0]));
    s[0] = static_cast<T>(large);
    double column = 0;
    kernel::exp_columns(MatrixView<T>(s, 1, 1), &g, &shift, &column);
    CHECK(std::abs(s[0] - std::exp(1.0L)) <= ulp<T>(3));
  });
}

TEST_CASE_TEMPLATE("scale_row and add_scaled_row", T, float, double) {
  on_every_target([] {
    Random random(34);
    for (const Index n : tile_sizes) {
      const double factor = uniform(random, -3, 3);
      Guarded<T> row(1, n);
      Guarded<T> in(1, n);
      row.fill([&] { return static_cast<T>(uniform(random, -1, 1)); });
      in.fill([&] { return static_cast<T>(uniform(random, -1, 1)); });
      Guarded<T> sum = row;
      const Guarded<T> before = row;
      kernel::scale_row(row.data(), n, factor);
      kernel::add_scaled_row(sum.data(), in.data(), n, factor);
      Worst scaled;
      Worst added;
      for (Index j = 0; j < n; ++j) {
        // One rounding of the factor to T, one of the product, one of the sum.
        const long double product = static_cast<long double>(before.data()[j]) * factor;
        scaled.add(row.data()[j], product, 2.01L * rounding<T> * std::abs(product));
        const long double term = static_cast<long double>(in.data()[j]) * factor;
        const long double want = before.data()[j] + term;
        added.add(sum.data()[j], want,
                  rounding<T> * (2.01L * std::abs(term) + std::abs(want)) * 1.01L);
      }
      CAPTURE(n);
      CHECK(scaled.value() <= 1);
      CHECK(added.value() <= 1);
      CHECK(row.intact());
      CHECK(sum.intact());
    }
  });
}

TEST_CASE_TEMPLATE("entropy_row", T, float, double) {
  using Limits = std::numeric_limits<T>;
  on_every_target([] {
    Random random(35);
    for (const T p : {T{0}, T{1}}) CHECK(kernel::entropy_row(&p, 1) == 0);
    // The logarithm's 4 ulp and the product's half.
    const auto term_error = [](long double term) { return 5 * ulp<T>(term); };
    Worst alone;
    const auto add = [&](T p) {
      const long double want = -static_cast<long double>(p) * std::log(static_cast<long double>(p));
      alone.add(kernel::entropy_row(&p, 1), want, term_error(want));
    };
    const double lowest = std::log(static_cast<double>(Limits::denorm_min()));
    for (int n = 0; n < 5000; ++n) add(static_cast<T>(std::exp(uniform(random, lowest, 0))));
    for (int n = 1; n < 100; ++n) add(T{1} - static_cast<T>(n) * (Limits::epsilon() / 2));
    for (const T p : {Limits::denorm_min(), Limits::min(), T{0.5}}) add(p);
    CHECK(alone.value() <= 1);

    for (const Index n : tile_sizes) {
      Guarded<T> p(1, n);
      p.fill([&] { return one_in(random, 5) ? T{0} : static_cast<T>(uniform(random, 0, 1)); });
      long double want = 0;
      long double allowed = 0;
      for (Index j = 0; j < n; ++j) {
        const long double value = p.data()[j];
        const long double term = value > 0 ? -value * std::log(value) : 0;
        want += term;
        allowed += term_error(term);
      }
      CAPTURE(n);
      CHECK(std::abs(kernel::entropy_row(p.data(), n) - want) <= allowed + sum_error<T>(want, n));
    }
  });
}

TEST_CASE_TEMPLATE("weighted_sum", T, float, double) {
  on_every_target([] {
    Random random(36);
    for (const Index n : tile_sizes) {
      Guarded<T> p(1, n);
      Guarded<T> s(1, n);
      p.fill([&] { return one_in(random, 5) ? T{0} : static_cast<T>(uniform(random, 0, 1)); });
      s.fill([&] { return static_cast<T>(uniform(random, -30, 30)); });
      long double want = 0;
      long double size = 0;
      for (Index j = 0; j < n; ++j) {
        if (p.data()[j] == 0) {
          if (j % 2 == 0) s.data()[j] = static_cast<T>(-infinity);
          continue;
        }
        const long double term = static_cast<long double>(p.data()[j]) * s.data()[j];
        want += term;
        size += std::abs(term);
      }
      CAPTURE(n);
      // In float64, whatever T is: a rounding for each product and each sum.
      const double got = kernel::weighted_sum(p.data(), s.data(), n);
      CHECK(std::abs(got - want) <= static_cast<long double>(n + 8) * rounding<double> * size);
      if (n == 0) continue;
      // A NaN is not hidden.
      p.data()[n / 2] = std::numeric_limits<T>::quiet_NaN();
      CHECK(std::isnan(kernel::weighted_sum(p.data(), s.data(), n)));
    }
  });
}

TEST_CASE_TEMPLATE("long rows are summed in float64", T, float, double) {
  // Adding 1e5 terms of 0.1 in float32 only has an error of up to 1e-3.
  constexpr Index n = 100003;
  on_every_target([] {
    std::vector<T> e(static_cast<std::size_t>(n), T{0});
    double sum = kernel::exp_row(e.data(), e.data(), n, nullptr, 2);
    const long double each = e[0];
    CHECK(std::abs(sum - each * n) <= sum_error<T>(each * n, n));
    const long double term = -each * std::log(each);
    sum = kernel::entropy_row(e.data(), n);
    CHECK(std::abs(sum - term * n) <= sum_error<T>(term * n, n) + n * 5 * ulp<T>(term));
  });
}
