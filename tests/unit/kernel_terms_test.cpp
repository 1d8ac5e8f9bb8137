#include "kernel/terms.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

// Covers all sizes at which tanh differs from 0 and ±1, and larger ones.
template <class T>
T argument(Random& random) {
  if (one_in(random, 20)) return T{0};
  const double size = std::exp(uniform(random, -20, 4));
  return static_cast<T>(one_in(random, 2) ? size : -size);
}

template <class T>
void check_tanh_energy(Random& random, Index rows, Index cols, Index hidden) {
  Guarded<T> u(rows, hidden);
  Guarded<T> v(hidden, cols);
  Guarded<T> w(1, hidden);
  u.fill([&] { return argument<T>(random); });
  v.fill([&] { return argument<T>(random); });
  w.fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
  Guarded<T> out(rows, cols);
  out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
  kernel::tanh_energy(u.view(), v.view(), w.data(), out.view());
  Worst worst;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      long double sum = 0;
      long double size = 0;
      for (Index a = 0; a < hidden; ++a) {
        const long double x = static_cast<long double>(u.view()(i, a)) + v.view()(a, j);
        sum += w.data()[a] * std::tanh(x);
        size += std::abs(static_cast<long double>(w.data()[a]));
      }
      worst.add(out.view()(i, j), sum,
                (70 + static_cast<long double>(hidden) / 64) * rounding<T> * size);
    }
  }
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(hidden);
  CHECK(worst.value() <= 1);
  CHECK(out.intact());
}

}  // namespace

TEST_CASE_TEMPLATE("tanh itself", T, float, double) {
  on_every_target([] {
    Random random(81);
    constexpr Index n = 20000;
    std::vector<T> x(n), out(n);
    for (T& value : x) value = argument<T>(random);
    const T zero = 0;
    const T one = 1;
    kernel::tanh_energy({&zero, 1, 1}, {x.data(), 1, n}, &one, {out.data(), 1, n});
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double want = std::tanh(static_cast<long double>(x[i]));
      worst.add(out[i], want, ulp<T>(want));
    }
    CHECK(worst.value() <= 4);  // the bound promised by Highway
  });
}

TEST_CASE_TEMPLATE("tanh_energy", T, float, double) {
  on_every_target([] {
    Random random(82);
    for (const Index cols : tile_sizes) check_tanh_energy<T>(random, 3, cols, 5);
    for (const Index hidden : tile_sizes) check_tanh_energy<T>(random, 2, 9, hidden);
    check_tanh_energy<T>(random, 0, 7, 3);
  });
}

TEST_CASE_TEMPLATE("soft_cap", T, float, double) {
  on_every_target([] {
    Random random(83);
    for (const double cap : {1e-30, 0.3, 50.0, 1e30}) {
      for (const Index n : tile_sizes) {
        Guarded<T> row(1, n);
        row.fill([&] { return score<T>(random); });
        const Guarded<T> before = row;
        kernel::soft_cap(row.data(), n, cap);
        Worst worst;
        for (Index j = 0; j < n; ++j) {
          const T s = before.data()[j];
          if (std::isinf(s)) {
            worst.require(row.data()[j] == s);
            continue;
          }
          const long double want = cap * std::tanh(static_cast<long double>(s) / cap);
          worst.add(row.data()[j], want, (sizeof(T) == 4 ? 1 : 6) * ulp<T>(want));
        }
        CAPTURE(cap);
        CAPTURE(n);
        CHECK(worst.value() <= 1);
        CHECK(row.intact());
      }
    }
  });
}

TEST_CASE_TEMPLATE("add_terms", T, float, double) {
  on_every_target([] {
    Random random(84);
    constexpr T lowest = std::numeric_limits<T>::denorm_min();
    for (int which = 0; which < 8; ++which) {
      for (const Index n : tile_sizes) {
        Guarded<T> row(1, n), a(1, n), b(1, n), p(1, n);
        row.fill([&] { return score<T>(random); });
        a.fill([&] { return static_cast<T>(uniform(random, -100, 100)); });
        b.fill([&] { return score<T>(random); });
        p.fill([&] {
          if (one_in(random, 6)) return T{0};
          if (one_in(random, 6)) return lowest;
          return static_cast<T>(std::exp(uniform(random, -80, 80)));
        });
        const Guarded<T> before = row;
        kernel::add_terms(row.data(), n, (which & 1) != 0 ? a.data() : nullptr,
                          (which & 2) != 0 ? b.data() : nullptr,
                          (which & 4) != 0 ? p.data() : nullptr);
        Worst worst;
        for (Index j = 0; j < n; ++j) {
          long double want = before.data()[j];
          long double size = std::abs(want);
          const auto add = [&](long double term) {
            want += term;
            size += std::abs(term);
          };
          if ((which & 1) != 0) add(a.data()[j]);
          if ((which & 2) != 0) add(b.data()[j]);
          if ((which & 4) != 0) add(std::log(static_cast<long double>(p.data()[j])));
          if (std::isinf(want)) {
            worst.require(row.data()[j] == -std::numeric_limits<T>::infinity());
          } else {
            worst.add(row.data()[j], want,
                      rounding<T> * std::abs(want) * 1.001L + 16 * rounding<double> * size);
          }
        }
        CAPTURE(which);
        CAPTURE(n);
        CHECK(worst.value() <= 1);
        CHECK(row.intact());
      }
    }
  });
}
