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

// A register tile has as many sums as fit beside the vectors of the panel: each loaded vector is
// used once per row, and each broadcast number once per vector.
#if HWY_TARGET <= HWY_AVX3  // 32 registers; lower is better
constexpr int tile_vectors = 4;
constexpr int most_sums = 25;
#else
constexpr int tile_vectors = 2;
constexpr int most_sums = 12;
#endif

// The last panel of a Packed has one vector more if it would be left alone.
constexpr int most_tile_vectors = tile_vectors + 1;

// With more rows, there are not enough registers for their addresses.
constexpr int most_tile_rows = 12;

template <int V>
constexpr int tile_rows = most_sums / V < most_tile_rows ? most_sums / V : most_tile_rows;

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

// One register tile: sums of R rows by V vectors of columns.
template <class T, int R, int V>
using Tile = Vec<T>[R][V];

template <int R, int V, class F>
HWY_INLINE void for_tile(const F& f) {
  unrolled<R>([&](auto r) HWY_ATTR { unrolled<V>([&](auto v) HWY_ATTR { f(r, v); }); });
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

// sum(r, ·) += Σ_k a(r, k) · panel(k, ·) for R rows and V vectors of the panel, in the order of k.
template <class T, int R, int V, class Left>
HWY_INLINE void add_to_tile(Left a, PackedPanel<T> panel, Index depth, Tile<T, R, V>& sum) {
  const Tag<T> d;
  const T* HWY_RESTRICT left = a.at;
  const T* HWY_RESTRICT right = panel.at;
  for (Index k = 0; k < depth; ++k) {
    Vec<T> b[V];
    unrolled<V>([&](auto v) HWY_ATTR { b[v] = hn::LoadU(d, right + v * lanes<T>()); });
    unrolled<R>([&](auto r) HWY_ATTR {
      const Vec<T> x = hn::Set(d, left[r * a.row + k * a.step]);
      unrolled<V>([&](auto v) HWY_ATTR { sum[r][v] = Left::add(x, b[v], sum[r][v]); });
    });
    right += panel.stride;
  }
}

// The same, from 0 on.
template <class T, int R, int V, class Left>
HWY_INLINE void sum_tile(Left a, PackedPanel<T> panel, Index depth, Tile<T, R, V>& sum) {
  for_tile<R, V>([&](auto r, auto v) HWY_ATTR { sum[r][v] = hn::Zero(Tag<T>()); });
  add_to_tile<T, R, V>(a, panel, depth, sum);
}

// Adds a finished sum to the element of out.
template <class T>
struct Added {
  Vec<T> operator()(Vec<T> sum, const T* out, Index /*row*/) const {
    return hn::Add(hn::LoadU(Tag<T>(), out), sum);
  }
};

// out(r, ·) = finish(Σ_k a(r, k) · panel(k, ·)) for the R rows and V whole vectors at `out`, whose
// rows are out_stride apart, then observe(tile) with the results.
template <class T, int R, int V, class Left, class Finish, class Observe>
HWY_INLINE void multiply_tile(Left a, PackedPanel<T> panel, Index depth, T* HWY_RESTRICT out,
                              Index out_stride, const Finish& finish, const Observe& observe) {
  Tile<T, R, V> sum;
  sum_tile<T, R, V>(a, panel, depth, sum);
  for_tile<R, V>([&](auto r, auto v) HWY_ATTR {
    T* to = out + r * out_stride + v * lanes<T>();
    sum[r][v] = finish(sum[r][v], to, r);
    hn::StoreU(sum[r][v], Tag<T>(), to);
  });
  observe(sum);
}

// The same where only `rest` columns of the last vector are in `out`, and nothing is observed.
template <class T, int R, int V, class Left, class Finish>
HWY_INLINE void multiply_tile_part(Left a, PackedPanel<T> panel, Index depth, T* HWY_RESTRICT out,
                                   Index out_stride, Index rest, const Finish& finish) {
  const Tag<T> d;
  Tile<T, R, V> sum;
  sum_tile<T, R, V>(a, panel, depth, sum);
  unrolled<R>([&](auto r) HWY_ATTR {
    T* to = out + r * out_stride;
    unrolled<V - 1>([&](auto v) HWY_ATTR {
      hn::StoreU(finish(sum[r][v], to + v * lanes<T>(), r), d, to + v * lanes<T>());
    });
    to += (V - 1) * lanes<T>();
    HWY_ALIGN T last[most_elements<T>(1)];
    hn::Store(load_part<T>(to, rest), d, last);
    store_part<T>(finish(sum[r][V - 1], last, r), to, rest);
  });
}

// Calls body(count, i) for all rows, in runs of R, 4, 2 and 1 from row i on; count is a constant.
template <int R, class Body>
HWY_INLINE void for_row_runs(Index rows, const Body& body) {
  Index i = 0;
  for (; i + R <= rows; i += R) body(std::integral_constant<int, R>(), i);
  if constexpr (R > 6) {
    for (; i + 4 <= rows; i += 4) body(std::integral_constant<int, 4>(), i);
  }
  for (; i + 2 <= rows; i += 2) body(std::integral_constant<int, 2>(), i);
  if (i < rows) body(std::integral_constant<int, 1>(), i);
}

// One panel by all rows of out. V vectors of the panel are in out; the last may be incomplete. The
// panel stays in the first-level cache meanwhile.
template <class T, int V, class Left, class Finish>
HWY_NOINLINE void multiply_vectors(Left a, Index depth, PackedPanel<T> panel, MatrixView<T> out,
                                   const Finish& finish) {
  const Index rest = out.cols - (V - 1) * lanes<T>();
  for_row_runs<tile_rows<V>>(out.rows, [&](auto count, Index i) HWY_ATTR {
    constexpr int R = decltype(count)::value;
    if (lanes<T>() == 1 || rest == lanes<T>()) {
      multiply_tile<T, R, V>(rows_from(a, i), panel, depth, out.row(i), out.row_stride, finish,
                             [](const auto& /*tile*/) {});
    } else {
      multiply_tile_part<T, R, V>(rows_from(a, i), panel, depth, out.row(i), out.row_stride, rest,
                                  finish);
    }
  });
}

// The same for any number of columns up to `Most` vectors.
template <class T, int Most, int V = 1, class Left, class Finish>
HWY_INLINE void multiply_panel(Left a, Index depth, PackedPanel<T> panel, MatrixView<T> out,
                               const Finish& finish) {
  if constexpr (V < Most) {
    if (out.cols > V * lanes<T>()) {
      return multiply_panel<T, Most, V + 1>(a, depth, panel, out, finish);
    }
  }
  multiply_vectors<T, V>(a, depth, panel, out, finish);
}

// At most `count` columns of `out` from `first` on.
template <class T>
MatrixView<T> columns_of(MatrixView<T> out, Index first, Index count) {
  const Index left = out.cols - first;
  return MatrixView<T>(out.data + first, out.rows, left < count ? left : count, out.row_stride);
}

// out = finish(a B), with B the columns of b from col0 on and its rows from row0 on.
template <class T, class Left, class Finish>
void multiply_panels(Left a, Index depth, const Packed<T>& b, Index col0, Index row0,
                     MatrixView<T> out, const Finish& finish) {
  for (Index first = 0; first < out.cols;) {
    const PackedPanel<T> panel = b.panel(col0 + first, row0);
    multiply_panel<T, most_tile_vectors>(a, depth, panel, columns_of(out, first, panel.width),
                                         finish);
    first += panel.width;
  }
}

template <class T>
AsItLies<T> as_it_lies(MatrixView<const T> a) {
  return {a.data, a.row_stride};
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
