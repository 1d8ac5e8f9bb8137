#include "kernel/activation.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/activation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

constexpr double root_half = 0.70710678118654752440;
constexpr double density_at_zero = 0.39894228040143267794;

// c_0 + c_1 z + … by Horner's rule.
template <std::size_t n>
Vec<float> polynomial(const float (&c)[n], Vec<float> z) {
  const Tag<float> d;
  Vec<float> sum = hn::Set(d, c[n - 1]);
  for (std::size_t k = n - 1; k-- > 0;) sum = hn::MulAdd(sum, z, hn::Set(d, c[k]));
  return sum;
}

// erf within 6.5e-8 and the roundings of the evaluation: a quotient of polynomials on |x| <= 4, as
// in Eigen and XLA.
inline Vec<float> erf_of(Vec<float> x) {
  const Tag<float> d;
  constexpr float above[] = {-1.60960333262415e-02F, -2.95459980854025e-03F, -7.34990630326855e-04F,
                             -5.69250639462346e-05F, -2.10102402082508e-06F, 2.77068142495902e-08F,
                             -2.72614225801306e-10F};
  constexpr float below[] = {-1.42647390514189e-02F, -7.37332916720468e-03F, -1.68282697438203e-03F,
                             -2.13374055278905e-04F, -1.45660718464996e-05F};
  const Vec<float> near = hn::Clamp(x, hn::Set(d, -4.0F), hn::Set(d, 4.0F));
  const Vec<float> square = hn::Mul(near, near);
  return hn::Div(hn::Mul(near, polynomial(above, square)), polynomial(below, square));
}

// Lane by lane: float64 is for checks.
inline Vec<double> erf_of(Vec<double> x) {
  HWY_ALIGN double lane[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(x, Tag<double>(), lane);
  for (Index i = 0; i < lanes<double>(); ++i) lane[i] = std::erf(lane[i]);
  return hn::Load(Tag<double>(), lane);
}

// Φ(x).
template <class T>
Vec<T> distribution(Vec<T> x) {
  const Tag<T> d;
  const Vec<T> half = hn::Set(d, T{0.5});
  return hn::MulAdd(half, erf_of(hn::Mul(x, hn::Set(d, static_cast<T>(root_half)))), half);
}

template <class T>
void Gelu(const T* x, Index n, T* y) {
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> value = load_part<T>(x + j, width);
    store_part<T>(hn::Mul(value, distribution<T>(value)), y + j, width);
  });
}

template <class T>
void GeluSlope(const T* x, Index n, T* dy) {
  const Tag<T> d;
  // Replaces a NaN, which Highway's exponential does not accept; x φ(x) is NaN in any case.
  const Vec<T> least = hn::Set(d, T{-1000});
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> value = load_part<T>(x + j, width);
    const Vec<T> square = hn::Mul(hn::Mul(value, value), hn::Set(d, T{-0.5}));
    const Vec<T> exponent = hn::IfThenElse(hn::Ge(square, least), square, least);
    const Vec<T> density =
        hn::Mul(exp_flushed(exponent), hn::Set(d, static_cast<T>(density_at_zero)));
    const Vec<T> slope = hn::MulAdd(value, density, distribution<T>(value));
    store_part<T>(hn::Mul(slope, load_part<T>(dy + j, width)), dy + j, width);
  });
}

template <class T>
void TanhRow(const T* x, Index n, T* y) {
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    store_part<T>(tanh_of(load_part<T>(x + j, width)), y + j, width);
  });
}

// σ(x) = (1 + tanh(x/2))/2.
template <class T>
void LogisticRow(const T* x, Index n, T* y) {
  const Tag<T> d;
  const Vec<T> half = hn::Set(d, T{0.5});
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> value = tanh_of(hn::Mul(half, load_part<T>(x + j, width)));
    store_part<T>(hn::MulAdd(half, value, half), y + j, width);
  });
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                     \
  KERNEL(T, void, gelu, Gelu, (const T* x, Index n, T* y), (x, n, y));              \
  KERNEL(T, void, gelu_slope, GeluSlope, (const T* x, Index n, T* dy), (x, n, dy)); \
  KERNEL(T, void, tanh_row, TanhRow, (const T* x, Index n, T* y), (x, n, y));       \
  KERNEL(T, void, logistic_row, LogisticRow, (const T* x, Index n, T* y), (x, n, y))
#include "kernel/dispatch-inl.hpp"
