#include "kernel/few_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/few_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
T LaneSum(Vec<T> v) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), v));
}

template <class T>
T Dot(const T* a, const T* b, Index n) {
  return LaneSum<T>(product_lanes(a, b, n));
}

// Multiplies each row of b by all rows of a, so that b is read once.
template <class T>
void FewRowsTransposed(T alpha, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  for (Index j = 0; j < out.cols; ++j) {
    for (Index i = 0; i < out.rows; ++i) out(i, j) = alpha * Dot<T>(a.row(i), b.row(j), a.cols);
  }
}

// The sums of one row of out stay in registers, strip by strip, over a run of b's rows.
template <class T>
void FewRowsAdd(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  const Tag<T> d;
  constexpr Index strips = 8;
  const Index step = lanes<T>();
  const Index wide = strips * step;
  for (Index i = 0; i < out.rows; ++i) {
    const T* factors = a.row(i);
    Index c = 0;
    for (; c + wide <= out.cols; c += wide) {
      T* to = out.row(i) + c;
      Vec<T> s0 = hn::LoadU(d, to), s1 = hn::LoadU(d, to + step);
      Vec<T> s2 = hn::LoadU(d, to + 2 * step), s3 = hn::LoadU(d, to + 3 * step);
      Vec<T> s4 = hn::LoadU(d, to + 4 * step), s5 = hn::LoadU(d, to + 5 * step);
      Vec<T> s6 = hn::LoadU(d, to + 6 * step), s7 = hn::LoadU(d, to + 7 * step);
      for (Index k = 0; k < a.cols; ++k) {
        const Vec<T> x = hn::Set(d, factors[k]);
        const T* from = b.row(k) + c;
        s0 = hn::MulAdd(x, hn::LoadU(d, from), s0);
        s1 = hn::MulAdd(x, hn::LoadU(d, from + step), s1);
        s2 = hn::MulAdd(x, hn::LoadU(d, from + 2 * step), s2);
        s3 = hn::MulAdd(x, hn::LoadU(d, from + 3 * step), s3);
        s4 = hn::MulAdd(x, hn::LoadU(d, from + 4 * step), s4);
        s5 = hn::MulAdd(x, hn::LoadU(d, from + 5 * step), s5);
        s6 = hn::MulAdd(x, hn::LoadU(d, from + 6 * step), s6);
        s7 = hn::MulAdd(x, hn::LoadU(d, from + 7 * step), s7);
      }
      hn::StoreU(s0, d, to), hn::StoreU(s1, d, to + step);
      hn::StoreU(s2, d, to + 2 * step), hn::StoreU(s3, d, to + 3 * step);
      hn::StoreU(s4, d, to + 4 * step), hn::StoreU(s5, d, to + 5 * step);
      hn::StoreU(s6, d, to + 6 * step), hn::StoreU(s7, d, to + 7 * step);
    }
    for (; c < out.cols; c += step) {
      const Index rest = out.cols - c < step ? out.cols - c : step;
      T* to = out.row(i) + c;
      Vec<T> sum = rest == step ? hn::LoadU(d, to) : Tail<T>(to, rest, 0).vec();
      for (Index k = 0; k < a.cols; ++k) {
        const T* from = b.row(k) + c;
        const Vec<T> value = rest == step ? hn::LoadU(d, from) : Tail<T>(from, rest, 0).vec();
        sum = hn::MulAdd(hn::Set(d, factors[k]), value, sum);
      }
      if (rest == step) {
        hn::StoreU(sum, d, to);
      } else {
        store_first<T>(sum, to, rest);
      }
    }
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
T LargestMagnitude(const T* x, Index n) {
  const Tag<T> d;
  const Index step = lanes<T>();
  Vec<T> even = hn::Zero(d);
  Vec<T> odd = hn::Zero(d);
  Index j = 0;
  for (; j + 2 * step <= n; j += 2 * step) {
    even = hn::Max(even, hn::Abs(hn::LoadU(d, x + j)));
    odd = hn::Max(odd, hn::Abs(hn::LoadU(d, x + j + step)));
  }
  for (; j < n; j += step) {
    const Index rest = n - j < step ? n - j : step;
    even = hn::Max(even, hn::Abs(Tail<T>(x + j, rest, 0).vec()));
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
  KERNEL(T, T, largest_magnitude, LargestMagnitude, (const T* x, Index n), (x, n))
#include "kernel/dispatch-inl.hpp"
