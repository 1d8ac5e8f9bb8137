#include "kernel/product.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "guarded.hpp"
#include "kernel/blas.hpp"
#include "parallel/parallel_for.hpp"

using namespace attn;
using attn::testing::Guarded;

namespace {

using Random = std::mt19937_64;

constexpr Index product_sizes[] = {0, 1, 2, 3, 7, 17, 64, 130};

template <class T>
Guarded<T> random_matrix(Index rows, Index cols, Index gap, Random& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  Guarded<T> matrix(rows, cols, gap);
  matrix.fill([&] { return static_cast<T>(value(random)); });
  return matrix;
}

// The largest error in units of (k + 2)·u·(|start| + Σ|a||b|), which bounds every order of
// summation: k products and sums, and two more roundings where partial sums are added up. A NaN is
// kept.
template <class T>
class ProductError {
 public:
  explicit ProductError(Index depth)
      : unit_(static_cast<long double>(depth + 2) * std::numeric_limits<T>::epsilon() / 2) {}

  void add(T got, long double want, long double magnitude) {
    const long double error = got == want ? 0 : std::abs(got - want) / (unit_ * magnitude);
    if (!(error <= worst_)) worst_ = std::isnan(error) ? HUGE_VALL : error;
  }
  double worst() const { return static_cast<double>(worst_); }

 private:
  long double unit_;
  long double worst_ = 0;
};

template <class T>
double error_of_transposed(const Guarded<T>& a, const Guarded<T>& b, const Guarded<T>& out) {
  ProductError<T> error(a.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index j = 0; j < b.rows(); ++j) {
      long double sum = 0;
      long double magnitude = 0;
      for (Index c = 0; c < a.cols(); ++c) {
        const long double term = static_cast<long double>(a.view()(i, c)) * b.view()(j, c);
        sum += term;
        magnitude += std::abs(term);
      }
      error.add(out.view()(i, j), sum, magnitude);
    }
  }
  return error.worst();
}

template <class T>
double error_of_added(const Guarded<T>& start, const Guarded<T>& a, const Guarded<T>& b,
                      const Guarded<T>& out) {
  ProductError<T> error(a.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index j = 0; j < b.cols(); ++j) {
      long double sum = start.view()(i, j);
      long double magnitude = std::abs(sum);
      for (Index c = 0; c < a.cols(); ++c) {
        const long double term = static_cast<long double>(a.view()(i, c)) * b.view()(c, j);
        sum += term;
        magnitude += std::abs(term);
      }
      error.add(out.view()(i, j), sum, magnitude);
    }
  }
  return error.worst();
}

}  // namespace

TEST_CASE_TEMPLATE("multiply_transposed against loops", T, float, double) {
  Random random(51);
  for (const Index rows : product_sizes) {
    for (const Index cols : product_sizes) {
      for (const Index depth : product_sizes) {
        // Rows without a gap between them, too.
        const auto a = random_matrix<T>(rows, depth, depth % 2, random);
        const auto b = random_matrix<T>(cols, depth, 3, random);
        Guarded<T> out(rows, cols, 1 + cols % 4);
        // The previous contents must not matter.
        out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
        kernel::multiply_transposed(a.view(), b.view(), out.view());
        CAPTURE(rows);
        CAPTURE(cols);
        CAPTURE(depth);
        CHECK(error_of_transposed(a, b, out) <= 1);
        CHECK(out.intact());
      }
    }
  }
}

TEST_CASE_TEMPLATE("products of a or its transpose, added or alone, against loops", T, float,
                   double) {
  Random random(52);
  for (const Index rows : product_sizes) {
    for (const Index cols : product_sizes) {
      for (const Index depth : product_sizes) {
        CAPTURE(rows);
        CAPTURE(cols);
        CAPTURE(depth);
        const auto a = random_matrix<T>(rows, depth, depth % 2, random);
        Guarded<T> flipped(depth, rows, rows % 3);
        for (Index i = 0; i < rows; ++i) {
          for (Index c = 0; c < depth; ++c) flipped.view()(c, i) = a.view()(i, c);
        }
        const Guarded<T>& transposed = flipped;
        const auto b = random_matrix<T>(depth, cols, 3, random);
        const auto start = random_matrix<T>(rows, cols, 1 + cols % 4, random);
        Guarded<T> sum = start;
        kernel::multiply_add(a.view(), b.view(), sum.view());
        CHECK(error_of_added(start, a, b, sum) <= 1);
        CHECK(sum.intact());
        sum = start;
        kernel::add_transposed_product(transposed.view(), b.view(), sum.view());
        CHECK(error_of_added(start, a, b, sum) <= 1);
        CHECK(sum.intact());

        Guarded<T> zeros = start;
        zeros.fill([] { return T{0}; });
        Guarded<T> product = start;
        // The previous contents must not matter.
        product.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
        kernel::multiply(a.view(), b.view(), product.view());
        CHECK(error_of_added(zeros, a, b, product) <= 1);
        CHECK(product.intact());
        product.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
        kernel::transposed_product(transposed.view(), b.view(), product.view());
        CHECK(error_of_added(zeros, a, b, product) <= 1);
        CHECK(product.intact());
      }
    }
  }
}

TEST_CASE_TEMPLATE("a depth of 0 gives zeros or changes nothing", T, float, double) {
  Random random(53);
  const auto a = random_matrix<T>(5, 9, 1, random);
  const auto b = random_matrix<T>(6, 9, 1, random);
  Guarded<T> out(5, 6);
  const auto zeros = [&] {
    Index count = 0;
    for (Index i = 0; i < 5; ++i)
      count += std::count(out.view().row(i), out.view().row(i) + 6, T{0});
    return count;
  };
  out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
  kernel::multiply_transposed(MatrixView<const T>(a.data(), 5, 0, 10),
                              MatrixView<const T>(b.data(), 6, 0, 10), out.view());
  CHECK(zeros() == 30);
  out.fill([] { return T{7}; });
  const Guarded<T> before = out;
  kernel::multiply_add(MatrixView<const T>(a.data(), 5, 0, 10),
                       MatrixView<const T>(b.data(), 0, 6, 10), out.view());
  CHECK(out == before);
}

TEST_CASE_TEMPLATE("the bits do not depend on the calling thread", T, float, double) {
  // Large enough that OpenBLAS would use threads of its own if allowed.
  Random random(54);
  const auto a = random_matrix<T>(300, 411, 1, random);
  const auto b = random_matrix<T>(290, 411, 1, random);
  const auto c = random_matrix<T>(290, 150, 1, random);
  constexpr std::size_t calls = 6;
  const std::vector<Guarded<T>> blank_products(calls, Guarded<T>(300, 290));
  const std::vector<Guarded<T>> blank_sums(calls, random_matrix<T>(300, 150, 2, random));
  const auto run = [&](int threads) {
    auto products = blank_products;
    auto sums = blank_sums;
    parallel_for(calls, threads, [&](Index item, int) {
      const auto at = static_cast<std::size_t>(item);
      kernel::multiply_transposed(a.view(), b.view(), products[at].view());
      kernel::multiply_add(std::as_const(products[at]).view(), c.view(), sums[at].view());
    });
    return std::pair(products, sums);
  };
  const auto alone = run(1);
  const auto together = run(3);
  for (std::size_t n = 0; n < calls; ++n) {
    CHECK(alone.first[n] == alone.first[0]);
    CHECK(alone.second[n] == alone.second[0]);
    CHECK(together.first[n] == alone.first[0]);
    CHECK(together.second[n] == alone.second[0]);
  }
  CHECK(!(alone.first[0] == blank_products[0]));
}

TEST_CASE("a product neither uses nor changes the calling thread's number of OpenMP threads") {
  Random random(55);
  const auto a = random_matrix<double>(300, 411, 1, random);
  const auto b = random_matrix<double>(290, 411, 1, random);
  const int before = omp_get_max_threads();
  std::vector<Guarded<double>> products(2, Guarded<double>(300, 290));
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    kernel::multiply_transposed(a.view(), b.view(), products[threads == 1 ? 0 : 1].view());
    CHECK(omp_get_max_threads() == threads);
  }
  omp_set_num_threads(before);
  CHECK(products[0] == products[1]);
}

TEST_CASE("the BLAS names itself") { CHECK(kernel::blas_description().rfind("OpenBLAS ", 0) == 0); }
