// Products of bfloat16 numbers: the bits of the contract, for every instruction set.

#include "kernel/bf16.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "guarded.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

constexpr Index bf16_extents[] = {0, 1, 2, 5, 6, 7, 13, 17, 63, 64, 65, 100};

float cut_to_bf16(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
}

// Numbers of very different sizes, some 0; with `small`, down to the least.
float any_bf16(Random& random, bool small) {
  if (one_in(random, 9)) return one_in(random, 2) ? 0.0F : -0.0F;
  const double size = small ? std::ldexp(1.0, static_cast<int>(uniform(random, -60, 4))) : 1;
  return cut_to_bf16(static_cast<float>(uniform(random, -2, 2) * size));
}

Guarded<float> bf16_matrix(Index rows, Index cols, Random& random, bool small) {
  Guarded<float> values(rows, cols);
  values.fill([&] { return any_bf16(random, small); });
  return values;
}

Guarded<float> in_pairs(const Guarded<float>& values) {
  Guarded<float> pairs(values.rows(), kernel::bf16_pairs(values.cols()));
  for (Index i = 0; i < values.rows(); ++i) {
    kernel::pair_bf16(values.view().row(i), values.cols(), pairs.view().row(i));
  }
  return pairs;
}

float flushed_to_0(float x) { return std::abs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

float or_0(float x) { return std::abs(x) >= kernel::least_bf16 ? x : 0.0F; }

// The sum in the order of the contract.
float sum_of_pairs(const float* a, const float* b, Index n) {
  const auto at = [n](const float* x, Index c) { return c < n ? or_0(x[c]) : 0.0F; };
  float sum = 0;
  for (Index c = 0; c < n; c += 2) {
    sum = flushed_to_0(std::fma(at(a, c + 1), at(b, c + 1), sum));
    sum = flushed_to_0(std::fma(at(a, c), at(b, c), sum));
  }
  return sum;
}

bool equal_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

TEST_CASE("bfloat16 numbers go in pairs, the first one in the lower half") {
  on_every_target([] {
    Random random(1);
    for (const Index n : tile_sizes) {
      const auto x = bf16_matrix(1, n, random, true);
      Guarded<float> pairs(1, kernel::bf16_pairs(n));
      kernel::pair_bf16(x.data(), n, pairs.data());
      bool right = true;
      for (Index p = 0; p < pairs.cols(); ++p) {
        const auto bits = std::bit_cast<std::uint32_t>(pairs.data()[p]);
        const float second = 2 * p + 1 < n ? or_0(x.data()[2 * p + 1]) : 0.0F;
        right = right && std::bit_cast<float>(bits << 16U) == or_0(x.data()[2 * p]) &&
                std::bit_cast<float>(bits & 0xFFFF0000U) == second;
      }
      CAPTURE(n);
      CHECK(right);
      CHECK(pairs.intact());
    }
  });
}

TEST_CASE("a number that is not bfloat16 is found where it is") {
  on_every_target([] {
    Random random(2);
    for (const Index n : tile_sizes) {
      auto x = bf16_matrix(1, n, random, false);
      CHECK(kernel::first_not_bf16(x.data(), n) == n);
      for (Index bad = n - 1; bad >= 0; bad -= 5) {
        x.data()[bad] = 1.0F + 0x1p-23F;
        CHECK(kernel::first_not_bf16(x.data(), n) == bad);
      }
    }
  });
}

TEST_CASE("products have the bits of the contract, starting at any panel") {
  on_every_target([] {
    Random random(3);
    const Index width = kernel::packed_width<float>();
    for (const bool small : {false, true}) {
      for (const Index rows : bf16_extents) {
        for (const Index cols : bf16_extents) {
          const Index depth =
              bf16_extents[static_cast<std::size_t>(rows + cols) % std::size(bf16_extents)];
          auto a = bf16_matrix(rows, depth, random, small);
          const auto b = bf16_matrix(cols, depth, random, small);
          if (rows > 0 && depth > 3) {  // the second product cancels the first one
            a.view()(0, 1) = a.view()(0, 0);
          }
          const auto a_pairs = in_pairs(a);
          const auto b_pairs = in_pairs(b);
          const auto packed = kernel::Packed<float>::of_transposed(b_pairs.view());
          for (Index col0 = 0; col0 <= cols; col0 += width) {
            const Index count = std::min<Index>(cols - col0, 1 + uniform(random, 0, 80));
            Guarded<float> out(rows, count);
            out.fill([] { return std::numeric_limits<float>::quiet_NaN(); });
            kernel::multiply_bf16(-1.5F, a_pairs.view(), packed, col0, out.view());
            bool same = true;
            for (Index i = 0; i < rows; ++i) {
              for (Index j = 0; j < count; ++j) {
                const float sum = sum_of_pairs(a.view().row(i), b.view().row(col0 + j), depth);
                same = same && equal_bits(out.view()(i, j), sum * -1.5F);
              }
            }
            CAPTURE(small);
            CAPTURE(rows);
            CAPTURE(cols);
            CAPTURE(depth);
            CHECK(same);
            CHECK(out.intact());
          }
        }
      }
    }
  });
}

TEST_CASE("sums that cancel to less than the least normal number are 0 for every CPU") {
  on_every_target([] {
    // 2⁻¹²⁰ (1 + 2⁻⁷)² − 2⁻¹²⁰ (1 + 2⁻⁶) = 2⁻¹³⁴, and 2¹⁰ times that.
    for (const float size : {1.0F, 32.0F}) {
      const float least = size * 0x1p-60F;
      const float a[] = {least * (1 + 0x1p-7F), least};
      const float b[] = {least * (1 + 0x1p-7F), -least * (1 + 0x1p-6F)};
      float a_pairs = 0;
      float b_pairs = 0;
      kernel::pair_bf16(a, 2, &a_pairs);
      kernel::pair_bf16(b, 2, &b_pairs);
      const auto packed = kernel::Packed<float>::of_transposed({&b_pairs, 1, 1});
      float out = 1;
      kernel::multiply_bf16(1, {&a_pairs, 1, 1}, packed, 0, {&out, 1, 1});
      CHECK(equal_bits(out, size == 1 ? 0.0F : 0x1p-124F));
      CHECK(equal_bits(out, sum_of_pairs(a, b, 2)));
    }
  });
}

TEST_CASE("exponentials of bfloat16 products, and their sums") {
  on_every_target([] {
    Random random(4);
    for (const Index rows : {0, 1, 6, 97}) {
      for (const Index cols : bf16_extents) {
        const Index depth = 1 + cols % 7;
        const auto a = in_pairs(bf16_matrix(rows, depth, random, false));
        const auto packed = kernel::Packed<float>::of_transposed(
            in_pairs(bf16_matrix(cols, depth, random, false)).view());
        Guarded<float> product(rows, cols);
        kernel::multiply_bf16(1.5F, a.view(), packed, 0, product.view());
        for (int kind = 0; kind < 3; ++kind) {  // by row, by column, by row with products
          Guarded<double> by_row(1, rows);
          Guarded<double> by_col(1, cols);
          Guarded<double> products(1, rows);
          for (auto* sums : {&by_row, &by_col, &products}) sums->fill([] { return 0.25; });
          Guarded<float> out(rows, cols);
          double* const row_sums = kind != 1 ? by_row.data() : nullptr;
          double* const col_sums = kind == 1 ? by_col.data() : nullptr;
          double* const row_products = kind == 2 ? products.data() : nullptr;
          kernel::multiply_exp_bf16(1.5F, a.view(), packed, 0, out.view(), row_sums, col_sums,
                                    row_products);
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(kind);
          check_exponentials<float>(product.view(), out.view(), 0.25, row_sums, col_sums,
                                    row_products);
          CHECK(out.intact());
        }
      }
    }
  });
}
