#include "kernel/tanh_of_products.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

// Addends of all sizes that are allowed, and what the kernel gets for them.
template <class T>
struct Addends {
  Addends(Random& random, Index rows, Index cols) : plain(rows, cols), exponentials(rows, cols) {
    plain.fill([&] {
      const double size = std::min(std::exp(uniform(random, -20, 3)), kernel::largest_tanh_addend);
      return static_cast<T>(one_in(random, 2) ? size : -size);
    });
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        exponentials.view()(i, j) = std::exp(2 * plain.view()(i, j));
      }
    }
  }
  long double operator()(Index i, Index j) const { return plain.view()(i, j); }

  Guarded<T> plain, exponentials;
};

template <class T>
void check_energies(Random& random, Index cols, Index hidden) {
  const Addends<T> u(random, 1, hidden);
  const Addends<T> v(random, hidden, cols);
  Guarded<T> w(1, hidden);
  const double largest = one_in(random, 2) ? 2 : kernel::largest_tanh_weight;
  w.fill([&] { return static_cast<T>(uniform(random, -largest, largest)); });
  Guarded<T> out(1, cols);
  out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
  kernel::energy_of_products(u.exponentials.data(), v.exponentials.view(), w.data(), out.data());
  Worst worst;
  for (Index j = 0; j < cols; ++j) {
    long double sum = 0;
    long double size = 0;
    for (Index a = 0; a < hidden; ++a) {
      sum += w.data()[a] * std::tanh(u(0, a) + v(a, j));
      size += std::abs(static_cast<long double>(w.data()[a]));
    }
    worst.add(out.view()(0, j), sum,
              (80 + static_cast<long double>(hidden) / 64) * rounding<T> * size);
  }
  CAPTURE(cols);
  CAPTURE(hidden);
  CHECK(worst.value() <= 1);
  CHECK(out.intact());
}

template <class T>
void check_gradient(Random& random, Index cols, Index hidden) {
  const Addends<T> u(random, 1, hidden);
  const Addends<T> v(random, hidden, cols);
  Guarded<T> w(1, hidden), grad(1, cols), du(1, hidden), dv(hidden, cols);
  for (auto* matrix : {&w, &grad, &du, &dv}) {
    matrix->fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
  }
  const Guarded<T> du_before = du;
  const Guarded<T> dv_before = dv;
  std::vector<double> dw(static_cast<std::size_t>(hidden), 0.5);
  kernel::add_gradient_of_products(u.exponentials.data(), v.exponentials.view(), w.data(),
                                   grad.data(), du.data(), dv.view(), dw.data());
  Worst worst;
  for (Index a = 0; a < hidden; ++a) {
    long double of_u = du_before.view()(0, a);
    long double of_w = 0.5;
    // Every term is at most 4, and there are about as many roundings as terms.
    const long double unit = rounding<T> * 16 * static_cast<long double>(cols + 20);
    for (Index j = 0; j < cols; ++j) {
      const long double x = u(0, a) + v(a, j);
      const long double g = grad.view()(0, j);
      const long double z = g * w.data()[a] / (std::cosh(x) * std::cosh(x));
      of_u += z;
      of_w += g * std::tanh(x);
      worst.add(dv.view()(a, j), z + dv_before.view()(a, j), unit);
    }
    worst.add(du.view()(0, a), of_u, unit);
    worst.add(dw[static_cast<std::size_t>(a)], of_w, unit);
  }
  CAPTURE(cols);
  CAPTURE(hidden);
  CHECK(worst.value() <= 1);
  CHECK(du.intact());
  CHECK(dv.intact());
}

}  // namespace

TEST_CASE_TEMPLATE("energy_of_products", T, float, double) {
  on_every_target([] {
    Random random(84);
    for (const Index cols : tile_sizes) check_energies<T>(random, cols, 5);
    for (const Index hidden : tile_sizes) check_energies<T>(random, 9, hidden);
  });
}

TEST_CASE_TEMPLATE("add_gradient_of_products", T, float, double) {
  on_every_target([] {
    Random random(85);
    for (const Index cols : tile_sizes) check_gradient<T>(random, cols, 5);
    for (const Index hidden : tile_sizes) check_gradient<T>(random, 9, hidden);
  });
}

// The slope by itself, where tanh is near 1.
TEST_CASE_TEMPLATE("slope of products", T, float, double) {
  on_every_target([] {
    for (const T x : {T{0}, T{1}, T{-3}, T{9}, T{-10}}) {
      const T u = std::exp(2 * x);
      const T w = 1;
      const T grad = 1;
      T du = 0;
      T dv = 0;
      double dw = 0;
      kernel::add_gradient_of_products(&u, {&u, 1, 1}, &w, &grad, &du, {&dv, 1, 1}, &dw);
      const long double cosh = std::cosh(2 * static_cast<long double>(x));
      const long double slope = 1 / (cosh * cosh);
      CHECK(std::abs(dv - slope) <= 40 * rounding<T> * slope);
      CHECK(du == dv);
    }
  });
}
