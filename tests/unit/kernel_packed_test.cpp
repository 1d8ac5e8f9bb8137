#include "kernel/packed.hpp"

#include <doctest/doctest.h>

#include <iterator>

#include "guarded.hpp"
#include "kernel/online_softmax.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

// One below a register tile, one past it, and so on, for every width; panels that take in one
// vector more, and those that are left with fewer.
constexpr Index packed_extents[] = {0, 1, 2, 5, 6, 7, 13, 16, 17, 40, 48, 63, 64, 65, 80, 100};
constexpr Index extent_count = std::size(packed_extents);

template <class T>
struct Product {
  long double value = 0;
  long double magnitude = 0;
};

template <class T, class Element>
Product<T> inner_product(Index depth, const Element& element) {
  Product<T> sum;
  for (Index c = 0; c < depth; ++c) {
    const long double term = element(c);
    sum.value += term;
    sum.magnitude += std::abs(term);
  }
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("a panel's width is a power of two, at most 64", T, float, double) {
  on_every_target([] {
    const Index width = kernel::packed_width<T>();
    CHECK(width >= 1);
    CHECK(width <= 64);
    CHECK((width & (width - 1)) == 0);
  });
}

TEST_CASE_TEMPLATE("packed products against loops, starting at any vector", T, float, double) {
  on_every_target([] {
    Random random(91);
    const Index vector = kernel::packed_vector<T>();
    for (const Index rows : packed_extents) {
      for (const Index cols : packed_extents) {
        const Index depth = packed_extents[(rows + cols) % extent_count];
        const auto a = uniform_matrix<T>(rows, depth, random);
        const auto b = uniform_matrix<T>(cols, depth, random);
        const auto packed = kernel::Packed<T>::of_transposed(b.view());
        const Index bytes = kernel::Packed<T>::bytes(depth, cols);
        CHECK(bytes >= cols * depth * static_cast<Index>(sizeof(T)));
        CHECK(bytes <= (cols + vector - 1) * depth * static_cast<Index>(sizeof(T)));
        for (Index col0 = 0; col0 <= cols; col0 += vector) {
          const Index count = std::min<Index>(cols - col0, 1 + uniform(random, 0, 80));
          Guarded<T> out(rows, count);
          out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
          kernel::multiply_packed(T{-1.5}, a.view(), packed, col0, out.view());
          Worst error;
          for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < count; ++j) {
              const auto want = inner_product<T>(depth, [&](Index c) {
                return -1.5L * a.view()(i, c) * static_cast<long double>(b.view()(col0 + j, c));
              });
              // A fused sum has a rounding for each term, and one more for alpha.
              error.add(out.view()(i, j), want.value,
                        static_cast<long double>(depth + 1) * rounding<T> * want.magnitude);
            }
          }
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(depth);
          CAPTURE(col0);
          CHECK(error.value() <= 1);
          CHECK(out.intact());
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("packed products are added, starting at any row", T, float, double) {
  on_every_target([] {
    Random random(92);
    for (const Index rows : packed_extents) {
      for (const Index cols : packed_extents) {
        const Index depth = packed_extents[(rows + cols) % extent_count];
        const Index row0 = depth / 3;
        const auto a = uniform_matrix<T>(rows, depth - row0, random);
        const auto b = uniform_matrix<T>(depth, cols, random);
        const auto start = uniform_matrix<T>(rows, cols, random);
        Guarded<T> out = start;
        kernel::multiply_add_packed(a.view(), kernel::Packed<T>::of(b.view()), row0, out.view());
        Worst error;
        for (Index i = 0; i < rows; ++i) {
          for (Index j = 0; j < cols; ++j) {
            const auto want = inner_product<T>(depth - row0, [&](Index c) {
              return a.view()(i, c) * static_cast<long double>(b.view()(row0 + c, j));
            });
            const long double before = start.view()(i, j);
            error.add(out.view()(i, j), before + want.value,
                      static_cast<long double>(depth + 1) * rounding<T> *
                          (want.magnitude + std::abs(before)));
          }
        }
        CAPTURE(rows);
        CAPTURE(cols);
        CAPTURE(depth);
        CHECK(error.value() <= 1);
        CHECK(out.intact());
      }
    }
  });
}

// The bits of an element depend only on its row and column.
TEST_CASE_TEMPLATE("a product's bits do not depend on the tile it lies in", T, float, double) {
  on_every_target([] {
    Random random(93);
    const auto a = uniform_matrix<T>(23, 31, random);
    const auto b = uniform_matrix<T>(200, 31, random);
    const auto packed = kernel::Packed<T>::of_transposed(b.view());
    Guarded<T> whole(23, 200);
    kernel::multiply_packed(T{0.3F}, a.view(), packed, 0, whole.view());
    const Index vector = kernel::packed_vector<T>();
    bool same = true;
    for (Index i = 0; i < 23; ++i) {
      for (Index col0 = 0; col0 < 200; col0 += vector) {
        const Index count = std::min<Index>(200 - col0, 7);
        Guarded<T> part(1, count);
        kernel::multiply_packed(T{0.3F}, a.view().row_range(i, 1), packed, col0, part.view());
        for (Index j = 0; j < count; ++j) {
          same = same && part.view()(0, j) == whole.view()(i, col0 + j);
        }
      }
    }
    CHECK(same);
  });
}

TEST_CASE_TEMPLATE("exponentials of products, and their sums by row and column", T, float, double) {
  on_every_target([] {
    Random random(94);
    for (const Index rows : {0, 1, 5, 6, 96, 97, 203}) {
      for (const Index cols : packed_extents) {
        const Index depth = 1 + cols % 7;
        // Up to 80 in magnitude.
        const auto a = uniform_matrix<T>(rows, depth, random, 4);
        const auto b = uniform_matrix<T>(cols, depth, random, 2.8);
        const auto packed = kernel::Packed<T>::of_transposed(b.view());
        Guarded<T> product(rows, cols);
        kernel::multiply_packed(T{1}, a.view(), packed, 0, product.view());
        for (int kind = 0; kind < 4; ++kind) {  // no sums, by row, by column, with products
          const bool rows_too = kind % 2 == 1;
          Guarded<double> by_row(1, rows);
          Guarded<double> by_col(1, cols);
          Guarded<double> products(1, rows);
          for (auto* sums : {&by_row, &by_col, &products}) sums->fill([] { return 0.25; });
          Guarded<T> out(rows, cols);
          double* const row_sums = rows_too ? by_row.data() : nullptr;
          double* const col_sums = kind == 2 ? by_col.data() : nullptr;
          double* const row_products = kind == 3 ? products.data() : nullptr;
          kernel::multiply_exp_packed(T{1}, a.view(), packed, 0, out.view(), row_sums, col_sums,
                                      row_products);
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(kind);
          check_exponentials<T>(product.view(), out.view(), 0.25, row_sums, col_sums, row_products);
          CHECK(out.intact());
          CHECK(by_row.intact());
          CHECK(by_col.intact());
          CHECK(products.intact());
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("exp_tile gives 0 for forbidden pairs", T, float, double) {
  on_every_target([] {
    Random random(95);
    for (const Index cols : tile_sizes) {
      const Index rows = 3;
      Guarded<T> s(rows, cols);
      s.fill([&] {
        return one_in(random, 5) ? static_cast<T>(-infinity)
                                 : static_cast<T>(uniform(random, -80, 80));
      });
      const Guarded<T> before = s;
      Guarded<double> by_row(1, rows);
      Guarded<double> by_col(1, cols);
      by_row.fill([] { return 0; });
      by_col.fill([] { return 0; });
      Guarded<double> products(1, rows);
      products.fill([] { return 0; });
      kernel::exp_tile(s.view(), by_row.data(), by_col.data(), products.data());
      Worst exponentials;
      Worst sums;
      for (Index i = 0; i < rows; ++i) {
        long double sum = 0;
        long double product = 0;
        long double magnitude = 0;
        for (Index j = 0; j < cols; ++j) {
          add_exponential(exponentials, s.view()(i, j), before.view()(i, j), 0, 0, true);
          sum += s.view()(i, j);
          if (s.view()(i, j) == 0) continue;
          const auto term = static_cast<long double>(s.view()(i, j)) * before.view()(i, j);
          product += term;
          magnitude += std::abs(term);
        }
        sums.add(by_row.data()[i], sum, sum_error<T>(sum, cols));
        sums.add(products.data()[i], product,
                 sum_error<T>(magnitude, cols) + 2 * rounding<T> * magnitude);
      }
      for (Index j = 0; j < cols; ++j) {
        long double sum = 0;
        for (Index i = 0; i < rows; ++i) sum += s.view()(i, j);
        sums.add(by_col.data()[j], sum, sum_error<T>(sum, rows));
      }
      CAPTURE(cols);
      CHECK(exponentials.value() <= 1);
      CHECK(sums.value() <= 1);
      CHECK(s.intact());
      // Neither sum is requested.
      Guarded<T> again = before;
      kernel::exp_tile(again.view(), nullptr, nullptr);
      CHECK(again == s);
    }
  });
}
