#include "kernel/magnitudes.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/magnitudes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
bool Magnitudes(const T* x, Index n, T* largest_finite, bool* any_negative) {
  const Tag<T> d;
  const Vec<T> infinite = hn::Set(d, static_cast<T>(-minus_infinity));
  Vec<T> largest = hn::Zero(d);
  // Vectors of numbers: a NaN fails the comparison, and all signs are joined bit by bit.
  Vec<T> finite = hn::Set(d, T{1});
  Vec<T> signs = hn::Zero(d);
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> value = load_part<T>(x + j, width);
    const Vec<T> magnitude = hn::Abs(value);
    const auto is_finite = hn::Lt(magnitude, infinite);
    largest = hn::Max(largest, hn::IfThenElseZero(is_finite, magnitude));
    finite = hn::IfThenElseZero(is_finite, finite);
    signs = hn::Or(signs, value);
  });
  *largest_finite = largest_lane<T>(largest);
  *any_negative = !hn::AllTrue(d, hn::Eq(hn::CopySign(hn::Set(d, T{1}), signs), hn::Set(d, T{1})));
  return hn::AllTrue(d, hn::Eq(finite, hn::Set(d, T{1})));
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
  return hn::GetLane(hn::SumOfLanes(Wide(), total));
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

#define ATTN_KERNELS(KERNEL, T)                                                \
  KERNEL(T, bool, magnitudes, Magnitudes,                                      \
         (const T* x, Index n, T* largest_finite, bool* any_negative),         \
         (x, n, largest_finite, any_negative));                                \
  KERNEL(T, double, squared_norm, SquaredNorm, (const T* x, Index n), (x, n)); \
  KERNEL(T, T, largest_magnitude, LargestMagnitude, (MatrixView<const T> matrix), (matrix))
#include "kernel/dispatch-inl.hpp"
