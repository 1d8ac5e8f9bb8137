#include "kernel/factor.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "random_problem.hpp"
#include "same_bits.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::vector<double> normal_numbers(Index count, Random& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

struct Square {
  explicit Square(Index order) : n(order), numbers(static_cast<std::size_t>(n * n), 0.0) {}
  Square(Index order, std::vector<double> values) : n(order), numbers(std::move(values)) {}

  double& operator()(Index i, Index j) { return numbers[static_cast<std::size_t>(i * n + j)]; }
  MatrixView<double> view() { return {numbers.data(), n, n}; }
  bool is_finite() const {
    return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  }

  Index n;
  std::vector<double> numbers;
};

// 1 + half of a Gram matrix in the lower triangle: the smallest eigenvalue is at least 1. NaN
// above.
Square positive_definite(Random& random, Index n) {
  Square matrix(n);
  for (Index i = 0; i < n; ++i) matrix(i, i) = 1;
  const std::vector<double> a = normal_numbers((n + 5) * n, random);
  kernel::add_gram({a.data(), n + 5, n}, 0.5, matrix.view());
  for (Index i = 0; i < n; ++i) std::fill_n(matrix.view().row(i) + i + 1, n - i - 1, not_a_number);
  return matrix;
}

// A copy that begins at another place of a cache line.
struct Moved {
  Moved(const std::vector<double>& from, std::size_t by) : numbers(by, 0.0), first(by) {
    numbers.insert(numbers.end(), from.begin(), from.end());
  }
  double* data() { return numbers.data() + first; }
  std::vector<double> rest() const {
    return {numbers.begin() + std::ptrdiff_t(first), numbers.end()};
  }

  std::vector<double> numbers;
  std::size_t first;
};

}  // namespace

TEST_CASE("Cholesky factors, and what they solve") {
  Random random(84);
  for (const Index n : {0, 1, 2, 7, 33, 40, 150}) {
    CAPTURE(n);
    Square matrix = positive_definite(random, n);
    Square plain = matrix;
    for (Index c = 0; c < n; ++c) {
      for (Index r = c; r < n; ++r) {
        for (Index b = 0; b < c; ++b) plain(r, c) -= plain(r, b) * plain(c, b);
        plain(r, c) = r == c ? std::sqrt(plain(r, c)) : plain(r, c) / plain(c, c);
      }
    }
    const std::vector<double> want = normal_numbers(n, random);
    std::vector<double> right(want.size(), 0.0);
    double norm = 0;
    for (Index i = 0; i < n; ++i) {
      double row = 0;
      for (Index j = 0; j < n; ++j) {
        const double value = matrix(std::max(i, j), std::min(i, j));
        right[static_cast<std::size_t>(i)] += value * want[static_cast<std::size_t>(j)];
        row += std::abs(value);
      }
      norm = std::max(norm, row);
    }
    // The condition is at most the norm.
    const double allowed = 1e-16 * static_cast<double>(n * n) * norm + 1e-15;
    REQUIRE(kernel::cholesky(matrix.view()));
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j <= i; ++j) CHECK(std::abs(matrix(i, j) - plain(i, j)) <= allowed);
      for (Index j = i + 1; j < n; ++j) CHECK(std::isnan(matrix(i, j)));
    }
    kernel::cholesky_solve(matrix.view(), right.data());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(right[i] - want[i]) <= allowed);
  }
}

TEST_CASE("what is not positive definite has no Cholesky factor") {
  for (const std::vector<double>& singular :
       {std::vector<double>{1, 0, 2, 1}, {1, 0, 1, 1}, {0, 0, 0, 0}}) {
    CHECK_FALSE(kernel::cholesky(Square(2, singular).view()));
  }
  Random random(86);
  for (const Index n : {1, 17, 40, 90}) {
    for (const Index at : {Index{0}, n / 2, n - 1}) {
      CAPTURE(n);
      CAPTURE(at);
      Square negative = positive_definite(random, n);
      negative(at, at) = -1;
      CHECK_FALSE(kernel::cholesky(negative.view()));
      for (const double bad : {not_a_number, std::numeric_limits<double>::infinity()}) {
        Square matrix = positive_definite(random, n);
        for (Index i = 0; i < n; ++i) std::fill_n(matrix.view().row(i) + i + 1, n - i - 1, 0.0);
        matrix(n - 1, at) = bad;
        CHECK_FALSE((kernel::cholesky(matrix.view()) && matrix.is_finite()));
      }
    }
  }
}

TEST_CASE("orthonormal bases of rows, of dependent ones too") {
  Random random(85);
  for (const auto& [rows, columns] :
       {std::pair<Index, Index>{0, 3}, {1, 1}, {1, 5}, {4, 4}, {7, 90}, {51, 60}}) {
    for (const bool dependent : {false, true}) {
      const Index n = rows;  // a lambda takes no binding
      const Index d = columns;
      CAPTURE(n);
      CAPTURE(d);
      std::vector<double> a = normal_numbers(n * d, random);
      if (dependent && n > 0) {
        std::fill_n(a.begin(), d, 0.0);
        std::copy_n(a.begin() + n / 2 * d, d, a.begin() + (n - 1) * d);
      }
      std::vector<double> basis = a;
      std::vector<double> coordinates(static_cast<std::size_t>(n * n), not_a_number);
      kernel::orthonormal_rows({basis.data(), n, d}, {coordinates.data(), n, n});
      const double allowed = 1e-14 * static_cast<double>(d);
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          double product = 0;
          for (Index c = 0; c < d; ++c) {
            product += basis[static_cast<std::size_t>(i * d + c)] *
                       basis[static_cast<std::size_t>(j * d + c)];
          }
          CHECK(std::abs(product - (i == j ? 1 : 0)) <= allowed);
          if (j > i) CHECK(coordinates[static_cast<std::size_t>(i * n + j)] == 0);
        }
        for (Index c = 0; c < d; ++c) {
          double back = 0;
          for (Index j = 0; j < n; ++j) {
            back += coordinates[static_cast<std::size_t>(i * n + j)] *
                    basis[static_cast<std::size_t>(j * d + c)];
          }
          CHECK(std::abs(back - a[static_cast<std::size_t>(i * d + c)]) <= allowed);
        }
      }
    }
  }
}

TEST_CASE("the largest singular value") {
  CHECK(kernel::largest_singular_value({nullptr, 0, 0}) == 0);
  CHECK(kernel::largest_singular_value(Square(1, {-3}).view()) == 3);
  for (const Index place : {0, 1, 2, 3}) {
    Square zeros(2);
    zeros.view().data[place] = not_a_number;
    CHECK(std::isnan(kernel::largest_singular_value(zeros.view())));
  }
  for (const Index n : {1, 2, 3, 17, 64}) {
    CAPTURE(n);
    CHECK(kernel::largest_singular_value(Square(n).view()) == 0);
    // Squares of these units are beyond float64.
    for (const double unit : {1.0, 1e-200, 1e200}) {
      CAPTURE(unit);
      Square bidiagonal(n);
      Square singular(n);
      for (Index i = 0; i < n; ++i) {
        bidiagonal(i, i) = unit;
        if (i > 0) bidiagonal(i - 1, i) = unit;
        for (Index j = 0; j < n; ++j) singular(i, j) = unit;
      }
      const double want = 2 * unit * std::cos(std::numbers::pi / static_cast<double>(2 * n + 1));
      const double allowed = 1e-16 * static_cast<double>(4 * n);
      CHECK(std::abs(kernel::largest_singular_value(bidiagonal.view()) / want - 1) <= allowed);
      const double of_ones = unit * static_cast<double>(n);
      CHECK(std::abs(kernel::largest_singular_value(singular.view()) / of_ones - 1) <= allowed);
    }
  }
}

TEST_CASE("factorisations have the same bits on any number of threads, anywhere in memory") {
  Random random(87);
  const int threads = omp_get_max_threads();
  for (const Index n : {5, 37, 300}) {
    CAPTURE(n);
    const Index d = n + n / 3;
    const Square matrix = positive_definite(random, n);
    const std::vector<double> right = normal_numbers(n, random);
    const std::vector<double> rows = normal_numbers(n * d, random);
    std::vector<std::vector<double>> first;
    for (const std::size_t by : {0, 1, 3}) {
      omp_set_num_threads(by == 0 ? 1 : 4);
      Moved factor(matrix.numbers, by), solution(right, by), basis(rows, by);
      Moved coordinates(std::vector<double>(static_cast<std::size_t>(n * n)), by);
      REQUIRE(kernel::cholesky({factor.data(), n, n}));
      kernel::cholesky_solve({factor.data(), n, n}, solution.data());
      kernel::orthonormal_rows({basis.data(), n, d}, {coordinates.data(), n, n});
      const double largest = kernel::largest_singular_value({coordinates.data(), n, n});
      const std::vector<std::vector<double>> found = {
          factor.rest(), solution.rest(), basis.rest(), coordinates.rest(), {largest}};
      if (first.empty()) first = found;
      for (std::size_t k = 0; k < found.size(); ++k) CHECK(same_nonempty_bits(found[k], first[k]));
    }
  }
  omp_set_num_threads(threads);
}
