// The register tile of products with Packed, for the instruction set being compiled. Included once
// per instruction set, hence no #pragma once.

#if defined(ATTN_KERNEL_PACKED_TILE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_KERNEL_PACKED_TILE_INL_HPP_
#undef ATTN_KERNEL_PACKED_TILE_INL_HPP_
#else
#define ATTN_KERNEL_PACKED_TILE_INL_HPP_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "kernel/packed.hpp"
#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// A register tile has six rows, and as many vectors as fit beside the factors: each loaded vector
// is used six times, and each broadcast number once per vector.
constexpr int tile_rows = 6;
#if HWY_TARGET <= HWY_AVX3  // 32 registers; lower is better
constexpr int tile_vectors = 4;
#else
constexpr int tile_vectors = 2;
#endif

// Upper bound on the elements of `vectors` vectors, for any instruction set.
template <class T>
constexpr std::size_t most_elements(std::size_t vectors) {
  return vectors * (HWY_MAX_BYTES / sizeof(T));
}

template <class T>
Index Width() {
  return tile_vectors * lanes<T>();
}

// Calls f(0) … f(N − 1) with constants: registers cannot be indexed by a variable, and a compiler
// that unrolls the loop itself may first put them into memory.
template <int N, int I = 0, class F>
HWY_INLINE void unrolled(const F& f) {
  if constexpr (I < N) {
    f(std::integral_constant<int, I>());
    unrolled<N, I + 1>(f);
  }
}

// One register tile: sums of R rows by one panel's columns.
template <class T, int R>
using Tile = Vec<T>[R][tile_vectors];

template <int R, class F>
HWY_INLINE void for_tile(const F& f) {
  unrolled<R>([&](auto r) HWY_ATTR { unrolled<tile_vectors>([&](auto v) HWY_ATTR { f(r, v); }); });
}

// The value to store at `out`, in row `row` of the register tile, for a finished sum.
template <class T>
struct Scaled {
  Vec<T> alpha;
  Vec<T> operator()(Vec<T> sum, const T* /*out*/, Index /*row*/) const {
    return hn::Mul(sum, alpha);
  }
};

// The left-hand factor: element (r, k) is at[r * row + k * step]. `add` adds its product with a
// vector of the panel.
template <class T>
struct AsItLies {
  const T* at;
  Index row;
  static constexpr Index step = 1;
  static HWY_INLINE Vec<T> add(Vec<T> x, Vec<T> b, Vec<T> sum) { return hn::MulAdd(x, b, sum); }
};
template <class T>
struct Transposed {
  const T* at;
  Index step;
  static constexpr Index row = 1;
  static HWY_INLINE Vec<T> add(Vec<T> x, Vec<T> b, Vec<T> sum) { return hn::MulAdd(x, b, sum); }
};
template <class T>
AsItLies<T> rows_from(AsItLies<T> a, Index i) {
  return {a.at + i * a.row, a.row};
}
template <class T>
Transposed<T> rows_from(Transposed<T> a, Index i) {
  return {a.at + i, a.step};
}

// out(r, ·) = finish(Σ_k a(r, k) · panel(k, ·)) for R rows, then observe(tile) with the results.
// The rows of `out` are out_stride apart.
template <class T, int R, class Left, class Finish, class Observe>
HWY_INLINE void multiply_tile(Left a, const T* HWY_RESTRICT panel, Index depth, T* HWY_RESTRICT out,
                              Index out_stride, const Finish& finish, const Observe& observe) {
  const Tag<T> d;
  const T* HWY_RESTRICT left = a.at;
  Tile<T, R> sum;
  for_tile<R>([&](auto r, auto v) HWY_ATTR { sum[r][v] = hn::Zero(d); });
  for (Index k = 0; k < depth; ++k) {
    Vec<T> b[tile_vectors];
    unrolled<tile_vectors>([&](auto v) HWY_ATTR { b[v] = hn::LoadU(d, panel + v * lanes<T>()); });
    unrolled<R>([&](auto r) HWY_ATTR {
      const Vec<T> x = hn::Set(d, left[r * a.row + k * a.step]);
      unrolled<tile_vectors>([&](auto v) HWY_ATTR { sum[r][v] = Left::add(x, b[v], sum[r][v]); });
    });
    panel += Width<T>();
  }
  for_tile<R>([&](auto r, auto v) HWY_ATTR {
    T* to = out + r * out_stride + v * lanes<T>();
    sum[r][v] = finish(sum[r][v], to, r);
    hn::StoreU(sum[r][v], d, to);
  });
  observe(sum);
}

// The same where `out` has only the first `width` columns, and nothing is observed.
template <class T, int R, class Left, class Finish>
HWY_NOINLINE void multiply_tile_part(Left a, const T* panel, Index depth, T* out, Index out_stride,
                                     Index width, const Finish& finish) {
  HWY_ALIGN T whole[R * most_elements<T>(tile_vectors)] = {};
  for (Index r = 0; r < R; ++r) {
    for (Index j = 0; j < width; ++j) whole[r * Width<T>() + j] = out[r * out_stride + j];
  }
  multiply_tile<T, R>(a, panel, depth, whole, Width<T>(), finish,
                      [](const Tile<T, R>& /*tile*/) {});
  for (Index r = 0; r < R; ++r) {
    for (Index j = 0; j < width; ++j) out[r * out_stride + j] = whole[r * Width<T>() + j];
  }
}

// Calls body(count, i) for all rows, in runs of 6, 2 and 1 from row i on; count is a constant.
template <class Body>
HWY_INLINE void for_row_runs(Index rows, const Body& body) {
  Index i = 0;
  for (; i + tile_rows <= rows; i += tile_rows) body(std::integral_constant<int, tile_rows>(), i);
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

// One panel, of which out has only some columns.
template <class T, class Left, class Finish>
HWY_INLINE void multiply_panel_part(Left a, Index depth, const T* panel, MatrixView<T> out,
                                    const Finish& finish) {
  for_row_runs(out.rows, [&](auto count, Index i) HWY_ATTR {
    multiply_tile_part<T, decltype(count)::value>(rows_from(a, i), panel, depth, out.row(i),
                                                  out.row_stride, out.cols, finish);
  });
}

// One panel by all rows of out, while the panel stays in the first-level cache. For whole panels,
// observe(tile, i) receives the results of the rows from i on.
template <class T, class Left, class Finish, class Observe>
HWY_INLINE void multiply_panel(Left a, Index depth, const T* panel, MatrixView<T> out,
                               const Finish& finish, const Observe& observe) {
  if (out.cols < Width<T>()) {
    multiply_panel_part<T>(a, depth, panel, out, finish);
    return;
  }
  for_row_runs(out.rows, [&](auto count, Index i) HWY_ATTR {
    constexpr int R = decltype(count)::value;
    multiply_tile<T, R>(rows_from(a, i), panel, depth, out.row(i), out.row_stride, finish,
                        [&](const Tile<T, R>& tile) HWY_ATTR { observe(tile, i); });
  });
}

template <class T>
AsItLies<T> as_it_lies(MatrixView<const T> a) {
  return {a.data, a.row_stride};
}

// The columns of `out` that lie in the panel starting at column `first`.
template <class T>
MatrixView<T> panel_of(MatrixView<T> out, Index first) {
  const Index width = out.cols - first < Width<T>() ? out.cols - first : Width<T>();
  return MatrixView<T>(out.data + first, out.rows, width, out.row_stride);
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
