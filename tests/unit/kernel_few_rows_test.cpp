#include "kernel/few_rows.hpp"

#include <doctest/doctest.h>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

constexpr Index few_rows_extents[] = {0, 1, 2, 7, 8, 9, 16, 17, 31, 64, 65, 128, 130, 257};

}  // namespace

TEST_CASE_TEMPLATE("few rows times a transposed matrix against loops", T, float, double) {
  on_every_target([] {
    Random random(71);
    for (const Index rows : {0, 1, 3, 23}) {
      for (const Index cols : {0, 1, 5, 40}) {
        for (const Index depth : few_rows_extents) {
          const auto a = uniform_matrix<T>(rows, depth, random);
          const auto b = uniform_matrix<T>(cols, depth, random);
          Guarded<T> out(rows, cols);
          out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
          kernel::few_rows_transposed(T{-1.5}, a.view(), b.view(), out.view());
          Worst error;
          for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < cols; ++j) {
              long double want = 0;
              long double size = 0;
              for (Index c = 0; c < depth; ++c) {
                const long double term = -1.5L * a.view()(i, c) * b.view()(j, c);
                want += term;
                size += std::abs(term);
              }
              error.add(out.view()(i, j), want,
                        static_cast<long double>(depth + 2) * rounding<T> * size);
            }
          }
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(depth);
          CHECK(error.value() <= 1);
          CHECK(out.intact());
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("few rows times a matrix are added", T, float, double) {
  on_every_target([] {
    Random random(72);
    // The last depth is read by pieces for 23 rows.
    for (const Index rows : {0, 1, 3, 23}) {
      for (const Index depth : {0, 1, 5, 40, 600}) {
        for (const Index cols : few_rows_extents) {
          const auto a = uniform_matrix<T>(rows, depth, random);
          const auto b = uniform_matrix<T>(depth, cols, random);
          const auto start = uniform_matrix<T>(rows, cols, random);
          Guarded<T> out = start;
          kernel::few_rows_add(a.view(), b.view(), out.view());
          Worst error;
          for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < cols; ++j) {
              long double want = start.view()(i, j);
              long double size = std::abs(want);
              for (Index c = 0; c < depth; ++c) {
                const long double term = static_cast<long double>(a.view()(i, c)) * b.view()(c, j);
                want += term;
                size += std::abs(term);
              }
              // Without fused products each term is rounded once more.
              error.add(out.view()(i, j), want,
                        static_cast<long double>(2 * depth + 1) * rounding<T> * size);
            }
          }
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(depth);
          CHECK(error.value() <= 1);
          CHECK(out.intact());
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("the bits of few rows depend on no other row", T, float, double) {
  on_every_target([] {
    Random random(74);
    const Index depth = 600;  // read by pieces, unless all rows are taken at once
    const Index cols = 130;
    const auto b = uniform_matrix<T>(depth, cols, random);
    const auto transposed = uniform_matrix<T>(cols, depth, random);
    for (const Index rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
      const auto a = uniform_matrix<T>(rows, depth, random);
      Guarded<T> added(rows, cols), alone(rows, cols), product(rows, cols),
          product_alone(rows, cols);
      for (Guarded<T>* out : {&added, &alone}) out->fill([] { return T{0.5}; });
      kernel::few_rows_add(a.view(), b.view(), added.view());
      kernel::few_rows_transposed(T{2}, a.view(), transposed.view(), product.view());
      Index differ = 0;
      for (Index i = 0; i < rows; ++i) {
        const auto row = a.view().row_range(i, 1);
        kernel::few_rows_add(row, b.view(), alone.view().row_range(i, 1));
        kernel::few_rows_transposed(T{2}, row, transposed.view(),
                                    product_alone.view().row_range(i, 1));
        for (Index j = 0; j < cols; ++j) {
          differ += added.view()(i, j) != alone.view()(i, j);
          differ += product.view()(i, j) != product_alone.view()(i, j);
        }
      }
      CAPTURE(rows);
      CHECK(differ == 0);
    }
  });
}
