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
  const Tag<T> d;
  const Index step = lanes<T>();
  Vec<T> even = hn::Zero(d);
  Vec<T> odd = hn::Zero(d);
  Index j = 0;
  for (; j + 2 * step <= n; j += 2 * step) {
    even = hn::MulAdd(hn::LoadU(d, x + j), hn::LoadU(d, y + j), even);
    odd = hn::MulAdd(hn::LoadU(d, x + j + step), hn::LoadU(d, y + j + step), odd);
  }
  for (; j < n; j += step) {
    const Index width = n - j < step ? n - j : step;
    even = hn::MulAdd(load_part<T>(x + j, width), load_part<T>(y + j, width), even);
  }
  return sum_lanes<T>(hn::Add(even, odd));
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

// Names without overloads, as the dispatch tables need them.
#define ATTN_FOR_TYPE(T, suffix)                                                                  \
  double Dot_##suffix(const T* x, const T* y, Index n) { return Dot<T>(x, y, n); }                \
  double MultiplyCovariance_##suffix(const T* p, T* a, Index n) {                                 \
    return MultiplyCovariance<T>(p, a, n);                                                        \
  }                                                                                               \
  void AddMultiple_##suffix(T* x, const T* v, Index n, T step) { AddMultiple<T>(x, v, n, step); } \
  void TurnDirection_##suffix(T* v, const T* x, Index n, T factor) {                              \
    TurnDirection<T>(v, x, n, factor);                                                            \
  }
ATTN_FOR_TYPE(float, f32)
ATTN_FOR_TYPE(double, f64)
#undef ATTN_FOR_TYPE

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::kernel {

#define ATTN_EXPORT(T, suffix)                                         \
  HWY_EXPORT(Dot_##suffix);                                            \
  HWY_EXPORT(MultiplyCovariance_##suffix);                             \
  HWY_EXPORT(AddMultiple_##suffix);                                    \
  HWY_EXPORT(TurnDirection_##suffix);                                  \
  double dot(const T* x, const T* y, Index n) {                        \
    return HWY_DYNAMIC_DISPATCH(Dot_##suffix)(x, y, n);                \
  }                                                                    \
  double multiply_covariance(const T* p, T* a, Index n) {              \
    return HWY_DYNAMIC_DISPATCH(MultiplyCovariance_##suffix)(p, a, n); \
  }                                                                    \
  void axpy(T* x, const T* v, Index n, T step) {                       \
    HWY_DYNAMIC_DISPATCH(AddMultiple_##suffix)(x, v, n, step);         \
  }                                                                    \
  void xpby(T* v, const T* x, Index n, T factor) {                     \
    HWY_DYNAMIC_DISPATCH(TurnDirection_##suffix)(v, x, n, factor);     \
  }
ATTN_EXPORT(float, f32)
ATTN_EXPORT(double, f64)
#undef ATTN_EXPORT

HWY_EXPORT(SpreadOfOpen);
double spread_of_open(const double* x, const double* closed, Index n) {
  return HWY_DYNAMIC_DISPATCH(SpreadOfOpen)(x, closed, n);
}

}  // namespace attn::kernel
#endif
