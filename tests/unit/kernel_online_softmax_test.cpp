#include "kernel/online_softmax.hpp"

#include <doctest/doctest.h>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

// The sums collected by online_softmax must equal Σ_j exp(s_j − max) for every division into tiles,
// and so must a sum that the caller keeps and scales by the returned factors.
template <class T>
void check_row(Random& random, Index n, bool grows) {
  std::vector<T> row(static_cast<std::size_t>(n));
  for (std::size_t j = 0; j < row.size(); ++j) {
    const double base = grows ? static_cast<double>(j) * 3 : uniform(random, -20, 20);
    row[j] = one_in(random, 4) ? static_cast<T>(-infinity) : static_cast<T>(base);
  }
  T max = static_cast<T>(-infinity);
  T factor = T{-1};
  double sum = 0;
  double product = 0;
  long double outside = 0;
  for (Index first = 0; first < n;) {
    const Index count = std::min<Index>(n - first, 1 + static_cast<Index>(uniform(random, 0, 70)));
    Guarded<T> tile(1, count);
    std::copy_n(row.begin() + first, count, tile.data());
    const bool changed = kernel::online_softmax(tile.view(), &max, &sum, &factor, &product);
    CHECK(changed == (factor != 1));
    outside *= factor;
    for (Index j = 0; j < count; ++j) outside += tile.data()[j];
    CHECK(tile.intact());
    first += count;
  }
  T largest = static_cast<T>(-infinity);
  for (const T s : row) largest = std::max(largest, s);
  long double want = 0;
  long double want_product = 0;
  for (const T s : row) {
    if (std::isinf(s)) continue;
    const long double x = static_cast<long double>(s) - largest;
    want += std::exp(x);
    want_product += x * std::exp(x);
  }
  CAPTURE(n);
  CHECK(max == largest);
  // An ulp for each exponential and the rounding of its argument, at most 60 where it matters; a
  // rounding of each factor and of each multiplication, at most n.
  const long double bound =
      want * (62 * 2 * rounding<T> + static_cast<long double>(n) * 2 * rounding<T>);
  CHECK(std::abs(sum - want) <= bound);
  CHECK(std::abs(outside - want) <= bound);
  // |x| exp(x) <= 1/e, and each product is subject to the same errors as its exponential.
  CHECK(std::abs(product - want_product) <=
        bound * 2 + static_cast<long double>(n) * 2 * 62 * rounding<T>);
}

}  // namespace

TEST_CASE_TEMPLATE("the running softmax of a row, in any tiles", T, float, double) {
  on_every_target([] {
    Random random(96);
    for (const Index n : tile_sizes) {
      check_row<T>(random, n, false);
      check_row<T>(random, n, true);
    }
  });
}

TEST_CASE_TEMPLATE("rows without allowed pairs so far", T, float, double) {
  on_every_target([] {
    const T nothing = static_cast<T>(-infinity);
    std::vector<T> tile(18, nothing);
    std::vector<T> max = {nothing, T{2}};
    std::vector<T> factor(2, T{0});
    std::vector<double> sum = {0, 3};
    CHECK(!kernel::online_softmax({tile.data(), 2, 9}, max.data(), sum.data(), factor.data()));
    CHECK(max == std::vector<T>{nothing, T{2}});
    CHECK(sum == std::vector<double>{0, 3});
    CHECK(factor == std::vector<T>{1, 1});
    CHECK(tile == std::vector<T>(18, T{0}));
  });
}

TEST_CASE_TEMPLATE("add_row_products", T, float, double) {
  on_every_target([] {
    Random random(97);
    for (const Index cols : tile_sizes) {
      const Index rows = 4;
      Guarded<T> tile(rows, cols);
      tile.fill([&] { return static_cast<T>(uniform(random, 0, 1)); });
      Guarded<double> factor(1, cols);
      factor.fill([&] { return one_in(random, 6) ? 0 : uniform(random, 0, 1); });
      Guarded<double> sum(1, rows);
      sum.fill([] { return 0.125; });
      const Guarded<T> before = tile;
      kernel::add_row_products(tile.view(), factor.data(), sum.data());
      Worst sums;
      for (Index i = 0; i < rows; ++i) {
        long double want = 0.125L;
        for (Index j = 0; j < cols; ++j) {
          want += tile.view()(i, j) * static_cast<long double>(static_cast<T>(factor.data()[j]));
        }
        // Each product is rounded once.
        sums.add(sum.data()[i], want, sum_error<T>(want, cols) + want * rounding<T>);
      }
      CAPTURE(cols);
      CHECK(sums.value() <= 1);
      CHECK(tile == before);
      CHECK(sum.intact());

      // Two sums at once have the same bits as each on its own.
      Guarded<double> other(1, cols);
      other.fill([&] { return uniform(random, 0, 1); });
      Guarded<double> alone(1, rows), first(1, rows), second(1, rows);
      for (auto* s : {&alone, &first, &second}) s->fill([] { return 0.125; });
      kernel::add_row_products(tile.view(), other.data(), alone.data());
      kernel::add_two_row_products(tile.view(), {factor.data(), other.data()},
                                   {first.data(), second.data()});
      CHECK(first == sum);
      CHECK(second == alone);
    }
  });
}

TEST_CASE_TEMPLATE("mix_columns", T, float, double) {
  on_every_target([] {
    Random random(99);
    for (const Index cols : {0, 1, 7, 17, 65, 130, 256, 257, 600}) {
      const Index rows = 5;
      Guarded<T> tile(rows, cols);
      tile.fill([&] { return static_cast<T>(uniform(random, 0, 2)); });
      Guarded<double> col(1, cols);
      col.fill([&] { return one_in(random, 6) ? 0 : uniform(random, 0, 3); });
      Guarded<T> row(1, rows), plain(1, rows);
      for (auto* factors : {&row, &plain}) {
        factors->fill([&] { return static_cast<T>(uniform(random, 0, 1)); });
      }
      const Guarded<T> before = tile;
      kernel::mix_columns(tile.view(), col.data(), row.data(), plain.data());
      Worst error;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          const long double by =
              static_cast<long double>(static_cast<T>(col.data()[j])) * row.data()[i] +
              plain.data()[i];
          const long double want = before.view()(i, j) * by;
          // All factors are positive: two products, a product and a sum, or one fused.
          error.add(tile.view()(i, j), want, 4 * rounding<T> * want);
        }
      }
      CAPTURE(cols);
      CHECK(error.value() <= 1);
      CHECK(tile.intact());
    }
  });
}

TEST_CASE_TEMPLATE("scale_columns_sum_rows and add_scaled_columns", T, float, double) {
  on_every_target([] {
    Random random(98);
    for (const auto& shape : std::vector<std::pair<Index, Index>>{
             {5, 0}, {5, 1}, {5, 7}, {64, 17}, {65, 65}, {129, 130}, {3, 513}, {5, 1100}}) {
      const Index rows = shape.first;
      const Index cols = shape.second;
      Guarded<T> tile(rows, cols);
      tile.fill([&] { return static_cast<T>(uniform(random, 0, 1)); });
      Guarded<double> factor(1, cols);
      factor.fill([&] { return one_in(random, 6) ? 0 : uniform(random, 0, 1); });
      Guarded<double> sum(1, rows);
      sum.fill([] { return 0.125; });
      const Guarded<T> before = tile;
      kernel::scale_columns_sum_rows(tile.view(), factor.data(), tile.view(), sum.data());
      Guarded<T> apart(rows, cols);
      Guarded<double> sum_apart(1, rows);
      sum_apart.fill([] { return 0.125; });
      kernel::scale_columns_sum_rows(before.view(), factor.data(), apart.view(), sum_apart.data());
      CHECK(apart == tile);
      CHECK(sum_apart == sum);
      CHECK(apart.intact());
      Worst sums;
      bool products = true;
      for (Index i = 0; i < rows; ++i) {
        long double want = 0.125L;
        for (Index j = 0; j < cols; ++j) {
          products = products &&
                     tile.view()(i, j) == before.view()(i, j) * static_cast<T>(factor.data()[j]);
          want += tile.view()(i, j);
        }
        sums.add(sum.data()[i], want, sum_error<T>(want, cols));
      }
      CAPTURE(cols);
      CHECK(products);
      CHECK(sums.value() <= 1);
      CHECK(tile.intact());
      CHECK(sum.intact());

      std::vector<T> row_factor(static_cast<std::size_t>(rows));
      for (T& f : row_factor) f = static_cast<T>(uniform(random, 0, 1));
      Guarded<double> by_col(1, cols);
      by_col.fill([] { return 0.5; });
      kernel::add_scaled_columns(before.view(), row_factor.data(), by_col.data());
      Worst columns;
      for (Index j = 0; j < cols; ++j) {
        long double want = 0.5L;
        for (Index i = 0; i < rows; ++i) {
          want += static_cast<long double>(before.view()(i, j)) *
                  row_factor[static_cast<std::size_t>(i)];
        }
        columns.add(by_col.data()[j], want, sum_error<T>(want, rows) + want * rounding<T>);
      }
      CHECK(columns.value() <= 1);
      CHECK(by_col.intact());
    }
  });
}
