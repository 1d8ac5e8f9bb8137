#include "kernel/few_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/few_rows.cpp"
#include <hwy/cache_control.h>
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

// Asks for the row some rows after row i, perhaps beyond the end: the rows that a call reads are
// mostly followed by those of the next one, and a prefetch never faults.
template <class T>
HWY_INLINE void prefetch_ahead(MatrixView<const T> b, Index i) {
  constexpr Index ahead = 8192 / sizeof(T);
  constexpr Index line = 64 / sizeof(T);
  const T* const row = b.row(i + 1 + ahead / (b.cols + 1));
  for (Index c = 0; c < b.cols; c += line) hwy::Prefetch(row + c);
}

// Multiplies each row of b by all rows of a, so that b is read once.
template <class T>
void FewRowsTransposed(T alpha, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  for (Index j = 0; j < out.cols; ++j) {
    prefetch_ahead(b, j);
    for (Index i = 0; i < out.rows; ++i) out(i, j) = alpha * Dot<T>(a.row(i), b.row(j), a.cols);
  }
}

// V vectors of columns of out and b, from the first ones on. The sums stay in registers over all of
// b's rows.
template <class T, int V>
void add_columns(MatrixView<const T> a, const T* b, Index b_stride, T* out, Index out_stride) {
  const PackedPanel<T> panel{b, b_stride, V * lanes<T>()};
  for_row_runs<tile_rows<V>>(a.rows, [&](auto count, Index i) HWY_ATTR {
    constexpr int R = decltype(count)::value;
    T* const first = out + i * out_stride;
    Tile<T, R, V> sum;
    for_tile<R, V>([&](auto r, auto v) HWY_ATTR {
      sum[r][v] = hn::LoadU(Tag<T>(), first + r * out_stride + v * lanes<T>());
    });
    add_to_tile<T, R, V>(rows_from(as_it_lies(a), i), panel, a.cols, sum);
    for_tile<R, V>([&](auto r, auto v) HWY_ATTR {
      hn::StoreU(sum[r][v], Tag<T>(), first + r * out_stride + v * lanes<T>());
    });
  });
}

// Strips of 8, 4, 2 and 1 vectors of columns, then the last, incomplete vector.
template <class T>
void FewRowsAdd(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  const Index step = lanes<T>();
  Index c = 0;
  const auto strips = [&](auto width) HWY_ATTR {
    constexpr int V = decltype(width)::value;
    for (; c + V * step <= out.cols; c += V * step) {
      add_columns<T, V>(a, b.data + c, b.row_stride, out.data + c, out.row_stride);
    }
  };
  strips(std::integral_constant<int, 8>());
  strips(std::integral_constant<int, 4>());
  strips(std::integral_constant<int, 2>());
  strips(std::integral_constant<int, 1>());
  const Index rest = out.cols - c;
  if (rest == 0) return;
  for (Index i = 0; i < out.rows; ++i) {
    Vec<T> sum = load_part<T>(out.row(i) + c, rest);
    for (Index k = 0; k < a.cols; ++k) {
      sum = hn::MulAdd(hn::Set(Tag<T>(), a(i, k)), load_part<T>(b.row(k) + c, rest), sum);
    }
    store_part<T>(sum, out.row(i) + c, rest);
  }
}

template <class T>
double SquaredNorm(const T* x, Index n) {
  const Index step = lanes<T>();
  Widened<T> sum = broadcast_wide<T>(0);
  for (Index j = 0; j < n; j += step) {
    const Index rest = n - j < step ? n - j : step;
    const Vec<T> v = rest == step ? hn::LoadU(Tag<T>(), x + j) : Tail<T>(x + j, rest, 0).vec();
    const Widened<T> wide = Widened<T>::of(v);
    for (int p = 0; p < Widened<T>::parts; ++p) {
      sum.part[p] = hn::MulAdd(wide.part[p], wide.part[p], sum.part[p]);
    }
  }
  WideVec total = sum.part[0];
  for (int p = 1; p < Widened<T>::parts; ++p) total = hn::Add(total, sum.part[p]);
  return LaneSum<double>(total);
}

template <class T>
T LargestMagnitude(MatrixView<const T> matrix) {
  const Tag<T> d;
  const Index step = lanes<T>();
  Vec<T> even = hn::Zero(d);
  Vec<T> odd = hn::Zero(d);
  for (Index i = 0; i < matrix.rows; ++i) {
    const T* const x = matrix.row(i);
    if (matrix.rows > 1) prefetch_ahead(matrix, i);
    Index j = 0;
    for (; j + 2 * step <= matrix.cols; j += 2 * step) {
      even = hn::Max(even, hn::Abs(hn::LoadU(d, x + j)));
      odd = hn::Max(odd, hn::Abs(hn::LoadU(d, x + j + step)));
    }
    for (; j < matrix.cols; j += step) {
      const Index rest = matrix.cols - j < step ? matrix.cols - j : step;
      even = hn::Max(even, hn::Abs(load_part<T>(x + j, rest)));
    }
  }
  return largest_lane<T>(hn::Max(even, odd));
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                           \
  KERNEL(T, void, few_rows_transposed, FewRowsTransposed,                                 \
         (T alpha, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out),      \
         (alpha, a, b, out));                                                             \
  KERNEL(T, void, few_rows_add, FewRowsAdd,                                               \
         (MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out), (a, b, out)); \
  KERNEL(T, double, squared_norm, SquaredNorm, (const T* x, Index n), (x, n));            \
  KERNEL(T, T, largest_magnitude, LargestMagnitude, (MatrixView<const T> matrix), (matrix))
#include "kernel/dispatch-inl.hpp"
