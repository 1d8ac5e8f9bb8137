#include "kernel/product.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>

#include "guarded.hpp"
#include "kernel/packed.hpp"
#include "parallel/parallel_for.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

struct Extents {
  Index rows;
  Index cols;
  Index depth;
};

// On both sides of what is packed, of a tile's rows, of a panel, of a run of the inner index, and
// of a block's columns.
constexpr Extents large_extents[] = {
    {0, 64, 64},   {24, 0, 40},    {30, 64, 0},    {5, 64, 64},     {23, 64, 16},
    {24, 64, 15},  {24, 64, 16},   {25, 65, 33},   {26, 100, 63},   {30, 128, 64},
    {31, 63, 65},  {29, 191, 130}, {24, 256, 255}, {26, 257, 256},  {37, 320, 257},
    {24, 31, 300}, {97, 48, 513},  {24, 1020, 66}, {25, 1100, 140}, {48, 500, 47}};

// A product, or a sum of `start` and a product, that was computed as `got`.
template <class T>
struct Checked {
  const Guarded<T>& a;  // (rows, depth)
  const Guarded<T>& b;  // (depth, cols)
  const Guarded<T>* start;
  Index run;  // of the inner index
};

// The largest error in units of what any order of summation may have: a rounding for each term, and
// one for the sum with `start`.
template <class T>
double error_of(const Checked<T>& product, const Guarded<T>& got) {
  Worst error;
  const Index depth = product.a.cols();
  for (Index i = 0; i < got.rows(); ++i) {
    for (Index j = 0; j < got.cols(); ++j) {
      long double sum = product.start == nullptr ? 0 : product.start->view()(i, j);
      long double magnitude = std::abs(sum);
      for (Index k = 0; k < depth; ++k) {
        const long double term = static_cast<long double>(product.a.view()(i, k)) *
                                 static_cast<long double>(product.b.view()(k, j));
        sum += term;
        magnitude += std::abs(term);
      }
      error.add(got.view()(i, j), sum,
                static_cast<long double>(depth + 1) * rounding<T> * magnitude);
    }
  }
  return error.value();
}

// Whether all elements are fused sums in the order that the contract says.
template <class T>
bool in_order(const Checked<T>& product, const Guarded<T>& got) {
  bool same = true;
  for (Index i = 0; i < got.rows(); ++i) {
    for (Index j = 0; j < got.cols(); ++j) {
      T total = product.start == nullptr ? T{0} : product.start->view()(i, j);
      for (Index first = 0; first < product.a.cols(); first += product.run) {
        T sum = 0;
        for (Index k = first; k < std::min(first + product.run, product.a.cols()); ++k) {
          sum = std::fma(product.a.view()(i, k), product.b.view()(k, j), sum);
        }
        total += sum;
      }
      same = same && total == got.view()(i, j);
    }
  }
  return same;
}

template <class T>
Guarded<T> flipped(const Guarded<T>& from) {
  Guarded<T> made(from.cols(), from.rows(), 2);
  for (Index i = 0; i < from.rows(); ++i) {
    for (Index j = 0; j < from.cols(); ++j) made.view()(j, i) = from.view()(i, j);
  }
  return made;
}

}  // namespace

TEST_CASE_TEMPLATE("products of many rows against loops", T, float, double) {
  on_every_target([] {
    const bool fuses = std::string(kernel::simd_description()).starts_with("AVX");
    Random random(55);
    for (const Extents& extents : large_extents) {
      const Index rows = extents.rows;
      const Index cols = extents.cols;
      const Index depth = extents.depth;
      CAPTURE(rows);
      CAPTURE(cols);
      CAPTURE(depth);
      const auto a = uniform_matrix<T>(rows, depth, random);
      const auto b = uniform_matrix<T>(depth, cols, random);
      const auto start = uniform_matrix<T>(rows, cols, random);
      const Guarded<T> of_a = flipped(a);
      const Guarded<T> of_b = flipped(b);
      // What is packed whatever the width of a panel.
      const bool large = rows >= 24 && depth >= 16 && cols % 64 == 0 && cols > 0 &&
                         (depth <= 128 || kernel::packed_vector<float>() >= 16);
      const auto check = [&](const Guarded<T>* added_to, Index run, const auto& compute) {
        Guarded<T> out = start;
        // Without a sum, the previous contents must not matter.
        if (added_to == nullptr) out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
        compute(out.view());
        const Checked<T> product{a, b, added_to, run};
        CHECK(error_of(product, out) <= 1);
        CHECK(out.intact());
        if (fuses && large) CHECK(in_order(product, out));
      };
      const MatrixView<const T> left = a.view();
      const MatrixView<const T> right = b.view();
      const MatrixView<const T> left_t = of_a.view();
      const MatrixView<const T> right_t = of_b.view();
      check(nullptr, 256,
            [&](MatrixView<T> out) { kernel::multiply_transposed(left, right_t, out); });
      check(nullptr, 256, [&](MatrixView<T> out) { kernel::multiply(left, right, out); });
      check(&start, 256, [&](MatrixView<T> out) { kernel::multiply_add(left, right, out); });
      check(nullptr, 64,
            [&](MatrixView<T> out) { kernel::transposed_product(left_t, right, out); });
      check(&start, 64,
            [&](MatrixView<T> out) { kernel::add_transposed_product(left_t, right, out); });
    }
  });
}

TEST_CASE_TEMPLATE("products of many rows in many threads at once", T, float, double) {
  Random random(56);
  const auto a = uniform_matrix<T>(40, 300, random);
  const auto b = uniform_matrix<T>(320, 300, random);
  Guarded<T> alone(40, 320);
  kernel::multiply_transposed(std::as_const(a).view(), std::as_const(b).view(), alone.view());
  std::vector<Guarded<T>> found(12, Guarded<T>(40, 320));
  parallel_for(12, 4, [&](Index n, int) {
    kernel::multiply_transposed(std::as_const(a).view(), std::as_const(b).view(),
                                found[static_cast<std::size_t>(n)].view());
  });
  for (const Guarded<T>& one : found) CHECK(one == alone);
}
