#include "kernel/conjugate.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/conjugate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
double Dot(const T* x, const T* y, Index n) {
  return sum_lanes<T>(product_lanes(x, y, n));
}

template <class T>
double MultiplyCovariance(const T* p, T* a, Index n) {
  const Tag<T> d;
  const Vec<T> mean = hn::Set(d, static_cast<T>(Dot<T>(p, a, n)));
  Vec<T> variance = hn::Zero(d);
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> deviation = hn::Sub(load_part<T>(a + j, width), mean);
    const Vec<T> weighted = hn::Mul(load_part<T>(p + j, width), deviation);
    variance = hn::MulAdd(weighted, deviation, variance);
    store_part<T>(weighted, a + j, width);
  });
  return sum_lanes<T>(variance);
}

template <class T>
void AddMultiple(T* x, const T* v, Index n, T step) {
  const Vec<T> by = hn::Set(Tag<T>(), step);
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> sum = hn::MulAdd(by, load_part<T>(v + j, width), load_part<T>(x + j, width));
    store_part<T>(sum, x + j, width);
  });
}

template <class T>
void TurnDirection(T* v, const T* x, Index n, T factor) {
  const Vec<T> by = hn::Set(Tag<T>(), factor);
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> sum = hn::MulAdd(by, load_part<T>(v + j, width), load_part<T>(x + j, width));
    store_part<T>(sum, v + j, width);
  });
}

double SpreadOfOpen(const double* x, const double* closed, Index n) {
  const Tag<double> d;
  const Vec<double> top = hn::Set(d, std::numeric_limits<double>::max());
  Vec<double> low = top;
  Vec<double> high = hn::Neg(top);
  const auto look = [&](Vec<double> value, Vec<double> price) HWY_ATTR {
    const auto open = hn::Le(price, top);
    low = hn::Min(low, hn::IfThenElse(open, value, top));
    high = hn::Max(high, hn::IfThenElse(open, value, hn::Neg(top)));
  };
  const Index step = lanes<double>();
  const Vec<double> zero = hn::Zero(d);
  Index j = 0;
  for (; j + step <= n; j += step) {
    look(hn::LoadU(d, x + j), closed == nullptr ? zero : hn::LoadU(d, closed + j));
  }
  if (j < n) {
    // Unused lanes repeat the first one in use.
    const double price = closed == nullptr ? 0 : closed[j];
    const Vec<double> prices =
        closed == nullptr ? zero : Tail<double>(closed + j, n - j, price).vec();
    look(Tail<double>(x + j, n - j, x[j]).vec(), prices);
  }
  const double least = -largest_lane<double>(hn::Neg(low));
  const double most = largest_lane<double>(high);
  return most >= least ? most - least : 0;
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                              \
  KERNEL(T, double, dot, Dot, (const T* x, const T* y, Index n), (x, y, n));                 \
  KERNEL(T, double, multiply_covariance, MultiplyCovariance, (const T* p, T* a, Index n),    \
         (p, a, n));                                                                         \
  KERNEL(T, void, axpy, AddMultiple, (T * x, const T* v, Index n, T step), (x, v, n, step)); \
  KERNEL(T, void, xpby, TurnDirection, (T * v, const T* x, Index n, T factor), (v, x, n, factor))
#include "kernel/dispatch-inl.hpp"

#if HWY_ONCE
namespace attn::kernel {

ATTN_EXPORT(SpreadOfOpen);
double spread_of_open(const double* x, const double* closed, Index n) {
  return ATTN_CHOSEN(SpreadOfOpen)(x, closed, n);
}

}  // namespace attn::kernel
#endif
