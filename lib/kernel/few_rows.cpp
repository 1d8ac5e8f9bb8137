#include "kernel/few_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/few_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
T LaneSum(Vec<T> v) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), v));
}

template <class T>
HWY_INLINE T Dot(const T* a, const T* b, Index n) {
  return LaneSum<T>(product_lanes(a, b, n));
}

// out(r, c) = alpha · ⟨row i + r of a, row j + c of b⟩ for R rows of a and C of b: each product has
// the two chains of product_lanes, and therefore the same bits.
template <class T, int R, int C>
HWY_NOINLINE void dot_tile(T alpha, MatrixView<const T> a, Index i, MatrixView<const T> b, Index j,
                           MatrixView<T> out) {
  const Tag<T> d;
  const Index step = lanes<T>();
  const Index n = a.cols;
  const T* const first_a = a.row(i);
  const T* const first_b = b.row(j);
  Tile<T, R, C> even, odd;
  for_tile<R, C>([&](auto r, auto c) HWY_ATTR { even[r][c] = odd[r][c] = hn::Zero(d); });
  const auto add = [&](Index k, auto load, Tile<T, R, C>& sum) HWY_ATTR {
    Vec<T> y[C];
    unrolled<C>([&](auto c) HWY_ATTR { y[c] = load(first_b + c * b.row_stride + k); });
    unrolled<R>([&](auto r) HWY_ATTR {
      const Vec<T> x = load(first_a + r * a.row_stride + k);
      unrolled<C>([&](auto c) HWY_ATTR { sum[r][c] = hn::MulAdd(x, y[c], sum[r][c]); });
    });
  };
  const auto whole = [](const T* p) HWY_ATTR { return hn::LoadU(Tag<T>(), p); };
  Index k = 0;
  for (; k + 2 * step <= n; k += 2 * step) {
    add(k, whole, even);
    add(k + step, whole, odd);
  }
  for (; k < n; k += step) {
    const Index width = n - k < step ? n - k : step;
    add(
        k, [&](const T* p) HWY_ATTR { return load_part<T>(p, width); }, even);
  }
  for_tile<R, C>([&](auto r, auto c) HWY_ATTR {
    out(i + r, j + c) = alpha * LaneSum<T>(hn::Add(even[r][c], odd[r][c]));
  });
}

// Rows of a and of b in such a tile: twice as many sums as products fit beside the vectors.
constexpr int dot_rows = most_sums >= 24 ? 4 : 2;
constexpr int dot_cols = 3;
// Shorter rows are faster one by one, as measured: a tile ends with a sum over lanes per product.
constexpr Index least_dot_depth = 128;

// Multiplies each row of b by all rows of a, so that b is read once.
template <class T>
void FewRowsTransposed(T alpha, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  Index j = 0;
  if (out.rows >= dot_rows && a.cols >= least_dot_depth) {
    for (; j + dot_cols <= out.cols; j += dot_cols) {
      for (int c = 0; c < dot_cols; ++c) prefetch_ahead(b, j + c);
      Index i = 0;
      for (; i + dot_rows <= out.rows; i += dot_rows) {
        dot_tile<T, dot_rows, dot_cols>(alpha, a, i, b, j, out);
      }
      for (; i < out.rows; ++i) dot_tile<T, 1, dot_cols>(alpha, a, i, b, j, out);
    }
  }
  for (; j < out.cols; ++j) {
    prefetch_ahead(b, j);
    for (Index i = 0; i < out.rows; ++i) out(i, j) = alpha * Dot<T>(a.row(i), b.row(j), a.cols);
  }
}

// V vectors of columns of out and b, from the first ones on, by R rows. The sums stay in registers
// over all of b's rows. Prefetches b some rows ahead, perhaps beyond the end: the CPU does not
// foresee rows far apart.
template <class T, int R, int V>
HWY_INLINE void add_strip(AsItLies<T> a, Index depth, const T* HWY_RESTRICT b, Index b_stride,
                          T* out, Index out_stride) {
  const Tag<T> d;
  constexpr Index ahead = 8;
  constexpr Index line = 64 / sizeof(T);
  Tile<T, R, V> sum;
  for_tile<R, V>([&](auto r, auto v)
                     HWY_ATTR { sum[r][v] = hn::LoadU(d, out + r * out_stride + v * lanes<T>()); });
  for (Index k = 0; k < depth; ++k, b += b_stride) {
    for (Index c = 0; c < V * lanes<T>(); c += line) hwy::Prefetch(b + ahead * b_stride + c);
    Vec<T> y[V];
    unrolled<V>([&](auto v) HWY_ATTR { y[v] = hn::LoadU(d, b + v * lanes<T>()); });
    unrolled<R>([&](auto r) HWY_ATTR {
      const Vec<T> x = hn::Set(d, a.at[r * a.row + k]);
      unrolled<V>([&](auto v) HWY_ATTR { sum[r][v] = hn::MulAdd(x, y[v], sum[r][v]); });
    });
  }
  for_tile<R, V>([&](auto r, auto v)
                     HWY_ATTR { hn::StoreU(sum[r][v], d, out + r * out_stride + v * lanes<T>()); });
}

// Strips of R rows and V vectors of columns from column c on, while there are as many columns.
template <class T, int R, int V>
HWY_INLINE void add_strips(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out,
                           Index& c) {
  if constexpr (V > 0 && R * V <= most_sums) {
    for (; c + V * lanes<T>() <= out.cols; c += V * lanes<T>()) {
      add_strip<T, R, V>(as_it_lies(a), a.cols, b.data + c, b.row_stride, out.data + c,
                         out.row_stride);
    }
  }
}

// R rows of out, with b read once: strips as wide as registers have room for their sums, then
// narrower strips, then the last, incomplete vector.
template <class T, int R>
HWY_NOINLINE void add_rows(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  constexpr int widest = most_sums / R < 8 ? most_sums / R : 8;
  Index c = 0;
  add_strips<T, R, widest>(a, b, out, c);
  if constexpr (widest > 4) add_strips<T, R, 4>(a, b, out, c);
  if constexpr (widest > 2) add_strips<T, R, 2>(a, b, out, c);
  if constexpr (widest > 1) add_strips<T, R, 1>(a, b, out, c);
  const Index rest = out.cols - c;
  if (rest == 0) return;
  for (Index i = 0; i < R; ++i) {
    Vec<T> sum = load_part<T>(out.row(i) + c, rest);
    for (Index k = 0; k < a.cols; ++k) {
      sum = hn::MulAdd(hn::Set(Tag<T>(), a(i, k)), load_part<T>(b.row(k) + c, rest), sum);
    }
    store_part<T>(sum, out.row(i) + c, rest);
  }
}

// Rows at a time; half as many for the rest, and so on.
constexpr int most_added_rows = most_sums >= 24 ? 8 : 4;

// Four rows by four vectors leave fewer registers empty than eight by three and then by one.
template <class T>
Index rows_at_once(Index cols) {
  return cols == 4 * lanes<T>() ? Index{4} : Index{most_added_rows};
}

template <class T, int R = most_added_rows>
void add_all_rows(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  if constexpr (R > 0) {
    Index i = 0;
    if (R <= rows_at_once<T>(out.cols)) {
      for (; i + R <= out.rows; i += R) {
        add_rows<T, R>(a.row_range(i, R), b, out.row_range(i, R));
      }
    }
    const Index rest = out.rows - i;
    if (rest > 0) add_all_rows<T, R / 2>(a.row_range(i, rest), b, out.row_range(i, rest));
  }
}

// If one sweep does not take all rows of out, b is read by pieces that stay in cache meanwhile.
template <class T>
void FewRowsAdd(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  constexpr Index numbers_in_cache = (Index{256} << 10) / sizeof(T);
  constexpr Index least = 32;
  const Index fitting = numbers_in_cache / (out.cols + 1);
  const bool power_of_two = (out.rows & (out.rows - 1)) == 0;
  const bool one_sweep = power_of_two && out.rows <= rows_at_once<T>(out.cols);
  const Index depth = one_sweep ? a.cols : fitting < least ? least : fitting;
  for (Index k = 0; k < a.cols; k += depth) {
    const Index count = a.cols - k < depth ? a.cols - k : depth;
    add_all_rows<T>({a.data + k, a.rows, count, a.row_stride}, b.row_range(k, count), out);
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                      \
  KERNEL(T, void, few_rows_transposed, FewRowsTransposed,                            \
         (T alpha, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out), \
         (alpha, a, b, out));                                                        \
  KERNEL(T, void, few_rows_add, FewRowsAdd,                                          \
         (MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out), (a, b, out))
#include "kernel/dispatch-inl.hpp"
