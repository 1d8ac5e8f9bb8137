#include "kernel/gradient.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

// A tile and its optional factors: g, row and factor·col may each be missing.
template <class T>
struct AdjointCase {
  AdjointCase(Index rows, Index cols, int which, Random& random)
      : p(rows, cols), g(rows, cols), row(1, rows), factor(1, rows), col(1, cols) {
    for (auto* matrix : {&p, &g, &row, &factor, &col}) {
      matrix->fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
    }
    if ((which & 1) != 0) x.g = std::as_const(g).view();
    x.weight = static_cast<T>(0.7);
    if ((which & 2) != 0) x.row = row.data();
    if ((which & 4) != 0) x.factor = factor.data();
    x.col = col.data();
  }

  // x_ij, and the sum of its terms' sizes.
  long double value(Index i, Index j, long double& size) const {
    const long double of_g =
        x.g.data != nullptr ? static_cast<long double>(x.weight) * x.g(i, j) : 0;
    const long double of_row = x.row != nullptr ? x.row[i] : 0;
    const long double of_col =
        x.factor != nullptr ? static_cast<long double>(x.factor[i]) * x.col[j] : 0;
    size = std::abs(of_g) + std::abs(of_row) + std::abs(of_col);
    return of_g + of_row + of_col;
  }

  Guarded<T> p, g, row, factor, col;
  kernel::Adjoint<T> x;
};

template <class T>
void check_adjoints(Index rows, Index cols, int which, Random& random) {
  AdjointCase<T> given(rows, cols, which, random);
  const auto p = std::as_const(given.p).view();
  Guarded<T> out(rows, cols);
  out.fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
  Guarded<T> sum_of(out);
  std::vector<double> columns(static_cast<std::size_t>(cols), 0.25);
  kernel::add_adjoint_columns(p, given.x, columns.data());
  kernel::adjoint_of_scores(p, given.x, true, sum_of.view());
  Worst worst;
  for (Index j = 0; j < cols; ++j) {
    long double sum = 0.25;
    long double sizes = 0.25;
    for (Index i = 0; i < rows; ++i) {
      long double size = 0;
      const long double x = given.value(i, j, size);
      const long double start = out.view()(i, j);
      worst.add(sum_of.view()(i, j), start + p(i, j) * x,
                rounding<T> * (5 * size * std::abs(p(i, j)) + std::abs(start)));
      sum += p(i, j) * x;
      sizes += std::abs(p(i, j)) * size;
    }
    worst.add(columns[static_cast<std::size_t>(j)], sum, 70 * rounding<T> * sizes);
  }
  kernel::adjoint_of_scores(p, given.x, false, out.view());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      long double size = 0;
      const long double x = given.value(i, j, size);
      worst.add(out.view()(i, j), p(i, j) * x, rounding<T> * 5 * size * std::abs(p(i, j)));
    }
  }
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(which);
  CHECK(worst.value() <= 1);
  CHECK(out.intact());
  CHECK(sum_of.intact());
  // In place of g.
  if (given.x.g.data == nullptr) return;
  kernel::adjoint_of_scores(p, given.x, false, given.g.view());
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) CHECK(given.g.view()(i, j) == out.view()(i, j));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("add_weighted_columns", T, float, double) {
  on_every_target([] {
    Random random(92);
    for (const Index rows : {0, 1, 3, 70}) {
      for (const Index cols : {0, 1, 7, 16, 33}) {
        AdjointCase<T> given(rows, cols, 0, random);
        const auto p = std::as_const(given.p).view();
        std::vector<double> factors;
        for (Index i = 0; i < rows; ++i) factors.push_back(uniform(random, -2, 2));
        std::vector<double> sums(static_cast<std::size_t>(cols), 0.25);
        kernel::add_weighted_columns(p, factors.data(), sums.data());
        Worst worst;
        for (Index j = 0; j < cols; ++j) {
          long double sum = 0.25;
          long double sizes = 0.25;
          for (Index i = 0; i < rows; ++i) {
            const long double term =
                static_cast<long double>(factors[static_cast<std::size_t>(i)]) * p(i, j);
            sum += term;
            sizes += std::abs(term);
          }
          // A product and a sum for each row.
          worst.add(sums[static_cast<std::size_t>(j)], sum,
                    static_cast<long double>(2 * rows) * rounding<double> * sizes);
        }
        CHECK(worst.value() <= 1);
      }
    }
  });
}

TEST_CASE_TEMPLATE("adjoint_of_scores and add_adjoint_columns", T, float, double) {
  on_every_target([] {
    Random random(91);
    for (int which = 0; which < 8; ++which) {
      for (const Index cols : {0, 1, 7, 16, 33}) check_adjoints<T>(3, cols, which, random);
      for (const Index rows : {0, 1, 65, 130}) check_adjoints<T>(rows, 5, which, random);
    }
  });
}

TEST_CASE_TEMPLATE("add_difference_columns", T, float, double) {
  on_every_target([] {
    Random random(95);
    for (const double spread : {1e-6, 0.1, 3.0, 30.0}) {
      for (const Index cols : {0, 1, 7, 16, 33}) {
        const Index rows = 70;
        AdjointCase<T> given(rows, cols, 7, random);
        Guarded<T> p(rows, cols), r(rows, cols);
        std::vector<double> row(static_cast<std::size_t>(rows));
        std::vector<double> col(static_cast<std::size_t>(cols));
        for (double& value : row) value = 1000 + uniform(random, -spread, spread);
        for (double& value : col) {
          value = one_in(random, 10) ? infinity : 1000 + uniform(random, -spread, spread);
        }
        r.fill([&] { return static_cast<T>(uniform(random, 0, 1)); });
        std::vector<double> sums(static_cast<std::size_t>(cols), 0.0);
        Worst worst;
        std::vector<long double> want(static_cast<std::size_t>(cols)), magnitudes(want);
        for (Index i = 0; i < rows; ++i) {
          for (Index j = 0; j < cols; ++j) {
            const auto at = static_cast<std::size_t>(j);
            const long double y =
                static_cast<long double>(row[static_cast<std::size_t>(i)]) - col[at];
            p.view()(i, j) = static_cast<T>(r.view()(i, j) * std::exp(y));
            long double size = 0;
            const long double x = given.value(i, j, size);
            want[at] += r.view()(i, j) * std::expm1(y) * x;
            magnitudes[at] += std::abs(r.view()(i, j) * std::expm1(y)) * size;
          }
        }
        kernel::add_difference_columns(std::as_const(p).view(), std::as_const(r).view(), row.data(),
                                       col.data(), given.x, sums.data());
        for (std::size_t j = 0; j < sums.size(); ++j) {
          // Only float64 keeps the digits of the difference of potentials 1000 and 1000.
          const long double lost = 1000 * rounding<double> / spread;
          worst.add(sums[j], want[j], (80 * rounding<T> + 4 * lost) * magnitudes[j]);
        }
        CAPTURE(spread);
        CAPTURE(cols);
        CHECK(worst.value() <= 1);
      }
    }
  });
}

TEST_CASE_TEMPLATE("dot_row", T, float, double) {
  on_every_target([] {
    Random random(92);
    for (const Index n : tile_sizes) {
      Guarded<T> p(1, n);
      p.fill([&] { return static_cast<T>(uniform(random, 0, 1)); });
      std::vector<double> x(static_cast<std::size_t>(n));
      for (double& value : x) value = uniform(random, -1, 1);
      long double dot = 0;
      long double sum = 0;
      for (Index j = 0; j < n; ++j) {
        dot += p.data()[j] * static_cast<long double>(x[static_cast<std::size_t>(j)]);
        sum += p.data()[j];
      }
      CAPTURE(n);
      Worst worst;
      worst.add(kernel::dot_row(p.data(), x.data(), n), dot, (n + 2) * rounding<double> * sum);
      worst.add(kernel::dot_row(p.data(), nullptr, n), sum, (n + 2) * rounding<double> * sum);
      CHECK(worst.value() <= 1);
    }
  });
}

TEST_CASE_TEMPLATE("soft_cap_slope", T, float, double) {
  on_every_target([] {
    Random random(93);
    for (const double cap : {0.3, 50.0, 1e30}) {
      for (const Index n : tile_sizes) {
        Guarded<T> grad(1, n), s(1, n);
        grad.fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
        s.fill([&] { return static_cast<T>(cap * uniform(random, -40, 40)); });
        const Guarded<T> before = grad;
        kernel::soft_cap_slope(grad.data(), s.data(), n, cap);
        Worst worst;
        for (Index j = 0; j < n; ++j) {
          const long double x = s.data()[j] / static_cast<long double>(cap);
          const long double cosh = std::cosh(x);
          const long double want = before.data()[j] / (cosh * cosh);
          worst.add(grad.data()[j], want,
                    std::abs(want) * (1.001L * rounding<T> +
                                      (16 + 2 * std::abs(x)) *
                                          rounding<double>)+std::numeric_limits<T>::denorm_min());
        }
        CAPTURE(cap);
        CAPTURE(n);
        CHECK(worst.value() <= 1);
        CHECK(grad.intact());
      }
    }
  });
}

TEST_CASE_TEMPLATE("add_tanh_gradient", T, float, double) {
  on_every_target([] {
    Random random(94);
    for (const Index cols : {0, 1, 7, 16, 33}) {
      const Index rows = 5;
      const Index hidden = 3;
      Guarded<T> u(rows, hidden), v(hidden, cols), w(1, hidden), grad(rows, cols);
      Guarded<T> du(rows, hidden), dv(hidden, cols);
      for (auto* matrix : {&u, &v, &w, &grad, &du, &dv}) {
        matrix->fill([&] { return static_cast<T>(uniform(random, -2, 2)); });
      }
      const Guarded<T> du_before = du;
      const Guarded<T> dv_before = dv;
      std::vector<double> dw(hidden, 0.5);
      kernel::add_tanh_gradient(std::as_const(u).view(), std::as_const(v).view(), w.data(),
                                std::as_const(grad).view(), du.view(), dv.view(), dw.data());
      // Every term is below 4, and there are about as many roundings as terms.
      const long double unit = rounding<T> * 4 * static_cast<long double>(cols + rows + 20);
      Worst worst;
      for (Index a = 0; a < hidden; ++a) {
        long double of_w = 0.5;
        std::vector<long double> of_v(static_cast<std::size_t>(cols));
        for (Index i = 0; i < rows; ++i) {
          long double of_u = du_before.view()(i, a);
          for (Index j = 0; j < cols; ++j) {
            const long double x = static_cast<long double>(u.view()(i, a)) + v.view()(a, j);
            const long double g = grad.view()(i, j);
            const long double z = g * w.data()[a] / (std::cosh(x) * std::cosh(x));
            of_u += z;
            of_v[static_cast<std::size_t>(j)] += z;
            of_w += g * std::tanh(x);
          }
          worst.add(du.view()(i, a), of_u, unit * 4);
        }
        for (Index j = 0; j < cols; ++j) {
          worst.add(dv.view()(a, j), of_v[static_cast<std::size_t>(j)] + dv_before.view()(a, j),
                    unit * 4);
        }
        worst.add(dw[static_cast<std::size_t>(a)], of_w, unit * rows);
      }
      CAPTURE(cols);
      CHECK(worst.value() <= 1);
      CHECK(du.intact());
      CHECK(dv.intact());
    }
  });
}
