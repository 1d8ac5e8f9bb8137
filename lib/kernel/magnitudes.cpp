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

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                        \
  KERNEL(T, bool, magnitudes, Magnitudes,                              \
         (const T* x, Index n, T* largest_finite, bool* any_negative), \
         (x, n, largest_finite, any_negative))
#include "kernel/dispatch-inl.hpp"
