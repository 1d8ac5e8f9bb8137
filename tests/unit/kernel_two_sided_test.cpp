#include "kernel/two_sided.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

template <class T>
std::vector<T> numbers(Random& random, Index n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& x : values) x = static_cast<T>(uniform(random, 0.5, 2));
  return values;
}

template <class T>
void fill(Random& random, MatrixView<T> tile) {
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) tile.row(i)[j] = static_cast<T>(uniform(random, 0.5, 2));
  }
}

// Positive terms: a rounding for each product and each sum.
template <class T>
long double positive_sum_error(Index terms, long double want) {
  return want * static_cast<long double>(terms + 2) * 2 * rounding<T>;
}

template <class T>
void check_products(Random& random, Index rows, Index cols) {
  CAPTURE(rows);
  CAPTURE(cols);
  Guarded<T> tile(rows, cols);
  fill(random, tile.view());
  const auto by_col = numbers<T>(random, cols);
  const auto by_row = numbers<T>(random, rows);
  std::vector<double> row_sum(static_cast<std::size_t>(rows), 3.0);
  std::vector<T> col_sum(static_cast<std::size_t>(cols), T{3});
  const MatrixView<const T> view = std::as_const(tile).view();
  kernel::row_products(view, by_col.data(), row_sum.data());
  kernel::column_products(view, by_row.data(), col_sum.data());
  for (Index i = 0; i < rows; ++i) {
    long double want = 3;
    for (Index j = 0; j < cols; ++j) {
      want += static_cast<long double>(view(i, j)) * by_col[static_cast<std::size_t>(j)];
    }
    CHECK(std::abs(row_sum[static_cast<std::size_t>(i)] - want) <=
          positive_sum_error<T>(cols, want));
  }
  for (Index j = 0; j < cols; ++j) {
    long double want = 3;
    for (Index i = 0; i < rows; ++i) {
      want += static_cast<long double>(view(i, j)) * by_row[static_cast<std::size_t>(i)];
    }
    CHECK(std::abs(col_sum[static_cast<std::size_t>(j)] - want) <=
          positive_sum_error<T>(rows, want));
  }
  // One row at a time: the same bits.
  std::vector<double> row_alone(static_cast<std::size_t>(rows), 3.0);
  std::vector<T> col_alone(static_cast<std::size_t>(cols), T{3});
  for (Index i = 0; i < rows; ++i) {
    kernel::row_products(view.row_range(i, 1), by_col.data(), row_alone.data() + i);
    kernel::column_products(view.row_range(i, 1), by_row.data() + i, col_alone.data());
  }
  CHECK(row_alone == row_sum);
  CHECK(col_alone == col_sum);
  CHECK(tile.intact());
}

}  // namespace

TEST_CASE_TEMPLATE("products with packed factors on either side", T, float, double) {
  on_every_target([] {
    Random random(501);
    for (const Index cols : tile_sizes) {
      for (const Index rows : {0, 1, 3, 4, 5, 8, 11}) check_products<T>(random, rows, cols);
    }
    check_products<T>(random, 6, 1500);
  });
}

TEST_CASE_TEMPLATE("products with both sides packed equal those with one", T, float, double) {
  on_every_target([] {
    Random random(502);
    constexpr Index rows = kernel::two_sided_rows;
    for (const Index cols : tile_sizes) {
      CAPTURE(cols);
      Guarded<T> now(rows, cols);
      Guarded<T> next(rows, cols);
      fill(random, now.view());
      fill(random, next.view());
      const MatrixView<const T> old = std::as_const(now).view();
      const MatrixView<const T> coming = std::as_const(next).view();
      const auto by_col = numbers<T>(random, cols);
      const auto by_row = numbers<T>(random, rows);
      const auto size = static_cast<std::size_t>(rows * cols);
      std::vector<T> packed_old(size), packed_coming(size);
      kernel::pack_rows(old, packed_old.data());
      kernel::pack_rows(coming, packed_coming.data());
      Guarded<T> back(rows, cols);
      kernel::unpack_rows(packed_old.data(), back.view());
      for (Index i = 0; i < rows; ++i) {
        CHECK(std::equal(old.row(i), old.row(i) + cols, back.view().row(i)));
      }
      CHECK(back.intact());
      std::vector<double> row_sum(rows, 1.0), row_want(rows, 1.0);
      std::vector<T> col_sum(static_cast<std::size_t>(cols), T{1});
      std::vector<T> col_want = col_sum;
      const kernel::TwoSided<T> both{
          packed_old.data(), by_row.data(), col_sum.data(), packed_coming.data(), by_col.data(),
          row_sum.data(),    cols};
      kernel::two_sided_products(both);
      kernel::column_products(old, by_row.data(), col_want.data());
      kernel::row_products(coming, by_col.data(), row_want.data());
      CHECK(row_sum == row_want);
      CHECK(col_sum == col_want);
      kernel::TwoSided<T> one = both;
      one.now = nullptr;
      kernel::two_sided_products(one);
      one = both;
      one.next = nullptr;
      kernel::two_sided_products(one);
      kernel::column_products(old, by_row.data(), col_want.data());
      kernel::row_products(coming, by_col.data(), row_want.data());
      CHECK(row_sum == row_want);
      CHECK(col_sum == col_want);
    }
  });
}

TEST_CASE_TEMPLATE("rows split after two_sided_cols have the same layout and sums as whole rows", T,
                   float, double) {
  on_every_target([] {
    Random random(503);
    constexpr Index rows = kernel::two_sided_rows;
    for (const Index cols : {Index{256}, Index{257}, Index{512}, Index{845}}) {
      CAPTURE(cols);
      Guarded<T> tile(rows, cols);
      fill(random, tile.view());
      const MatrixView<const T> whole = std::as_const(tile).view();
      const auto by_col = numbers<T>(random, cols);
      const auto by_row = numbers<T>(random, rows);
      std::vector<T> packed(static_cast<std::size_t>(rows * cols));
      kernel::pack_rows(whole, packed.data());
      std::vector<double> row_sum(rows, 1.0), row_want(rows, 1.0);
      std::vector<T> col_sum(static_cast<std::size_t>(cols), T{1});
      std::vector<T> col_want = col_sum;
      kernel::TwoSided<T> products{packed.data(), by_row.data(),  col_sum.data(), packed.data(),
                                   by_col.data(), row_sum.data(), cols,           true};
      kernel::two_sided_products(products);
      for (Index first = 0; first < cols; first += kernel::two_sided_cols) {
        const Index width = std::min(kernel::two_sided_cols, cols - first);
        const MatrixView<const T> part(whole.data + first, rows, width, whole.row_stride);
        std::vector<T> alone(static_cast<std::size_t>(rows * width));
        kernel::pack_rows(part, alone.data());
        CHECK(std::equal(alone.begin(), alone.end(), packed.begin() + rows * first));
        products = {alone.data(), by_row.data(),         col_want.data() + first,
                    alone.data(), by_col.data() + first, row_want.data(),
                    width};
        kernel::two_sided_products(products);
      }
      CHECK(row_sum == row_want);
      CHECK(col_sum == col_want);
    }
  });
}
