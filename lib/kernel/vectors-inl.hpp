// Vector helpers that the kernels share, for the instruction set being compiled. Included once per
// instruction set, hence no #pragma once.

#if defined(ATTN_KERNEL_VECTORS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_KERNEL_VECTORS_INL_HPP_
#undef ATTN_KERNEL_VECTORS_INL_HPP_
#else
#define ATTN_KERNEL_VECTORS_INL_HPP_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include <iterator>
#include <type_traits>

#include "tensor/infinity.hpp"
#include "tensor/view.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// float32 partial sums move to float64 after this many terms a lane.
constexpr Index terms_in_float = 64;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
using Wide = hn::ScalableTag<double>;
using WideVec = hn::Vec<Wide>;

template <class T>
Index lanes() {
  return static_cast<Index>(hn::Lanes(Tag<T>()));
}

// One vector of T as float64: one vector for double, a lower and an upper one for float. Code that
// needs float64 is written once for both types through it.
template <class T>
struct Widened;

template <>
struct Widened<double> {
  static constexpr int parts = 1;
  WideVec part[1];
  static Widened of(Vec<double> v) { return {{v}}; }
  Vec<double> narrow() const { return part[0]; }
};

template <>
struct Widened<float> {
#if HWY_TARGET == HWY_SCALAR  // one lane of either type: there are no halves
  static constexpr int parts = 1;
  WideVec part[1];
  static Widened of(Vec<float> v) {
    return {{ hn::PromoteTo(Wide(), v) }};
  }
  Vec<float> narrow() const { return hn::DemoteTo(Tag<float>(), part[0]); }
#else
  static constexpr int parts = 2;
  WideVec part[2];
  static Widened of(Vec<float> v) {
    const hn::Half<Tag<float>> half;
    return {{hn::PromoteTo(Wide(), hn::LowerHalf(half, v)),
             hn::PromoteTo(Wide(), hn::UpperHalf(half, v))}};
  }
  Vec<float> narrow() const {
    const hn::Half<Tag<float>> half;
    return hn::Combine(Tag<float>(), hn::DemoteTo(half, part[1]), hn::DemoteTo(half, part[0]));
  }
#endif
};

template <class T>
Widened<T> load_wide(const double* p) {
  Widened<T> w;
  for (int i = 0; i < Widened<T>::parts; ++i) {
    w.part[i] = hn::LoadU(Wide(), p + i * lanes<double>());
  }
  return w;
}

template <class T>
void store_wide(const Widened<T>& w, double* p) {
  for (int i = 0; i < Widened<T>::parts; ++i) {
    hn::StoreU(w.part[i], Wide(), p + i * lanes<double>());
  }
}

template <class T>
Widened<T> broadcast_wide(double value) {
  Widened<T> w;
  for (int i = 0; i < Widened<T>::parts; ++i) w.part[i] = hn::Set(Wide(), value);
  return w;
}

template <class T>
Widened<T> minus(Widened<T> a, const Widened<T>& b) {
  for (int i = 0; i < Widened<T>::parts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}

template <class T>
Widened<T> plus(Widened<T> a, const Widened<T>& b) {
  for (int i = 0; i < Widened<T>::parts; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}

template <class T>
Widened<T> larger(Widened<T> a, const Widened<T>& b) {
  for (int i = 0; i < Widened<T>::parts; ++i) a.part[i] = hn::Max(a.part[i], b.part[i]);
  return a;
}

// Masked loads and stores of these do not touch the lanes that are left out. This file is read once
// for each instruction set.
#undef ATTN_HAS_MASKED_ACCESS
#if HWY_TARGET <= HWY_AVX2  // lower is better
#define ATTN_HAS_MASKED_ACCESS 1
#else
#define ATTN_HAS_MASKED_ACCESS 0
#endif

// The last, incomplete vector of a row goes through separate memory: masked loads may fault on the
// unused lanes.
template <class T>
struct Tail {
  HWY_ALIGN T value[HWY_MAX_BYTES / sizeof(T)];
  Tail(const T* p, Index n, T fill) {
    for (Index i = 0; i < lanes<T>(); ++i) value[i] = i < n ? p[i] : fill;
  }
  Vec<T> vec() const { return hn::Load(Tag<T>(), value); }
};

template <class T>
struct WideTail {
  HWY_ALIGN double value[HWY_MAX_BYTES / sizeof(T)];
  WideTail(const double* p, Index n, double fill) {
    for (Index i = 0; i < lanes<T>(); ++i) value[i] = i < n ? p[i] : fill;
  }
  Widened<T> wide() const { return load_wide<T>(value); }
  void copy_to(double* p, Index n) const {
    for (Index i = 0; i < n; ++i) p[i] = value[i];
  }
};

template <class T>
void store_first(Vec<T> v, T* p, Index n) {
#if ATTN_HAS_MASKED_ACCESS
  const Tag<T> d;
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(n)), d, p);
#else
  HWY_ALIGN T lane[HWY_MAX_BYTES / sizeof(T)] = {};
  hn::Store(v, Tag<T>(), lane);
  for (Index i = 0; i < n; ++i) p[i] = lane[i];
#endif
}

// Not MaxOfLanes: on Highway 1.0's emulated target it starts at the lowest finite number, and so
// loses a -inf.
template <class T>
T largest_lane(Vec<T> v) {
  HWY_ALIGN T lane[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, Tag<T>(), lane);
  T largest = lane[0];
  for (Index i = 1; i < lanes<T>(); ++i) largest = lane[i] > largest ? lane[i] : largest;
  return largest;
}

template <class T>
double sum_lanes(Vec<T> v) {
  const Widened<T> w = Widened<T>::of(v);
  WideVec total = w.part[0];
  for (int i = 1; i < Widened<T>::parts; ++i) total = hn::Add(total, w.part[i]);
  return hn::GetLane(hn::SumOfLanes(Wide(), total));
}

// Σ of vectors, in T for a bounded number of terms and in float64 beyond.
template <class T>
class RowSum {
 public:
  // Written out: an implicit constructor would be compiled for the baseline CPU.
  RowSum() : partial_(hn::Zero(Tag<T>())) {}
  void add(Vec<T> v) {
    partial_ = hn::Add(partial_, v);
    if (++terms_ == terms_in_float) flush();
  }
  double total() {
    flush();
    return total_;
  }

 private:
  void flush() {
    total_ += sum_lanes<T>(partial_);
    partial_ = hn::Zero(Tag<T>());
    terms_ = 0;
  }
  Vec<T> partial_;
  Index terms_ = 0;
  double total_ = 0;
};

// The first part of ln 2 has so few bits that its multiple by n is exact. exp(r) = 1 + r (1 + r
// p(r)) on |r| <= ln 2 / 2; p begins with the highest power.
template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float rounder = 12582912.0F;  // 1.5 2^23
  static constexpr float first = 0.693359375F, second = -2.12194440e-4F;
  // Minimax in the relative error: 3e-9.
  static constexpr float p[] = {0.0013814539F, 0.008368745F, 0.04166839F, 0.1666652F, 0.49999994F};
};
template <>
struct ExpConstants<double> {
  static constexpr double rounder = 6755399441055744.0;  // 1.5 2^52
  static constexpr double first = 0.693147180559663, second = 2.8235290563031577e-13;
  // By interpolation at Chebyshev's points; relative error 1.7e-17.
  static constexpr double p[] = {2.510038549551032e-08,  2.7620088445409746e-07,
                                 2.7557268459997064e-06, 2.4801521295954376e-05,
                                 0.00019841269863053618, 0.0013888888917213717,
                                 0.008333333333330062,   0.04166666666662413,
                                 0.16666666666666669,    0.5000000000000001};
};

// exp(x) = 2^n (1 + r q) for |x| <= 87 in float32 and 708 in float64; n stands in the lowest bits
// of `power`.
template <class T>
struct ExpParts {
  Vec<T> power, r, q;
};

template <class T>
HWY_INLINE ExpParts<T> exp_parts(Vec<T> x) {
  using Constants = ExpConstants<T>;
  const Tag<T> d;
  // Adding this rounds to an integer and leaves it in the lowest bits.
  const Vec<T> rounder = hn::Set(d, Constants::rounder);
  const Vec<T> shifted =
      hn::MulAdd(x, hn::Set(d, static_cast<T>(1.4426950408889634)), rounder);  // 1 / ln 2
  const Vec<T> n = hn::Sub(shifted, rounder);
  const Vec<T> first = hn::NegMulAdd(n, hn::Set(d, Constants::first), x);
  const Vec<T> r = hn::NegMulAdd(n, hn::Set(d, Constants::second), first);
  Vec<T> p = hn::Set(d, Constants::p[0]);
  for (std::size_t k = 1; k < std::size(Constants::p); ++k) {
    p = hn::MulAdd(p, r, hn::Set(d, Constants::p[k]));
  }
  return {shifted, r, hn::MulAdd(p, r, hn::Set(d, T{1}))};
}

// 2^n times v, which is near 1.
template <class T>
Vec<T> times_power(Vec<T> v, const ExpParts<T>& parts) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> bits;
  constexpr int fraction = sizeof(T) == sizeof(float) ? 23 : 52;
  const auto exponent = hn::ShiftLeft<fraction>(hn::BitCast(bits, parts.power));
  return hn::BitCast(d, hn::Add(hn::BitCast(bits, v), exponent));
}

template <class T>
Vec<T> exp_of_parts(const ExpParts<T>& parts) {
  return times_power<T>(hn::MulAdd(parts.q, parts.r, hn::Set(Tag<T>(), T{1})), parts);
}

// exp for |x| <= 87 in float32 and 708 in float64, within 1 ulp with fused products and 1.25
// without. In float32 in half the time of hn::Exp.
inline Vec<float> exp_near_zero(Vec<float> x) { return exp_of_parts(exp_parts<float>(x)); }
inline Vec<double> exp_near_zero(Vec<double> x) { return exp_of_parts(exp_parts<double>(x)); }

// exp for x <= 87 or 708, including -inf; results below the smallest normal number are 0.
inline Vec<float> exp_flushed(Vec<float> x) {
  const Tag<float> d;
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -87.33F)), exp_near_zero(x));
}
inline Vec<double> exp_flushed(Vec<double> x) {
  const Tag<double> d;
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -708.39)), exp_near_zero(x));
}

// exp(2|x|) - 1, for |x| beyond 43.5 as there.
inline Vec<float> expm1_of_twice(Vec<float> x) {
  const Tag<float> d;
  const Vec<float> size = hn::Abs(x);
  const ExpParts<float> parts = exp_parts<float>(hn::Min(hn::Add(size, size), hn::Set(d, 87.0F)));
  const Vec<float> one = hn::Set(d, 1.0F);
  const Vec<float> power = times_power<float>(one, parts);
  return hn::MulAdd(power, hn::Mul(parts.q, parts.r), hn::Sub(power, one));
}

// tanh of a finite x, within 4 ulp: e/(e + 2) for e = exp(2|x|) - 1. In half the time of hn::Tanh.
inline Vec<float> tanh_of(Vec<float> x) {
  const Vec<float> e = expm1_of_twice(x);
  return hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(Tag<float>(), 2.0F))), x);
}

inline Vec<double> tanh_of(Vec<double> x) { return hn::Tanh(Tag<double>(), x); }

// s_j <- e_j = exp(s_j - shift), for a shift that keeps every exponential at or below e^80. Returns
// Σ_j e_j. With Product, adds Σ_j e_j (s_j - shift) to `product`.
template <bool Product, class T>
double exp_row_shifted_by(T* s, Index n, T shift, double* product) {
  const Tag<T> d;
  const Index step = lanes<T>();
  const Vec<T> base = hn::Set(d, shift);
  // Replaces -inf, because 0 times -inf would be NaN.
  const Vec<T> least = hn::Set(d, T{-1000});
  RowSum<T> sum;
  RowSum<T> products;
  const auto exponentials = [&](Vec<T> v) HWY_ATTR {
    const Vec<T> x = hn::Sub(v, base);
    const Vec<T> e = exp_flushed(x);
    sum.add(e);
    if (Product) products.add(hn::Mul(e, hn::Max(x, least)));
    return e;
  };
  Index j = 0;
  for (; j + step <= n; j += step) hn::StoreU(exponentials(hn::LoadU(d, s + j)), d, s + j);
  if (j < n) {
    const Vec<T> v = Tail<T>(s + j, n - j, static_cast<T>(minus_infinity)).vec();
    store_first<T>(exponentials(v), s + j, n - j);
  }
  if (Product) *product += products.total();
  return sum.total();
}

template <class T>
double exp_row_shifted(T* s, Index n, T shift, double* product) {
  return product == nullptr ? exp_row_shifted_by<false, T>(s, n, shift, product)
                            : exp_row_shifted_by<true, T>(s, n, shift, product);
}

// Columns are processed in strips of one vector, all rows of a strip before the next, with
// per-column values in registers. The body receives the first column and a Strip that loads and
// stores.
template <class T>
struct Strip {
  T* first;  // row 0 of the strip
  Index stride;
  Index width;  // lanes in use
  Vec<T> load(Index i, T fill) const {
    const T* p = first + i * stride;
    return width == lanes<T>() ? hn::LoadU(Tag<T>(), p) : Tail<T>(p, width, fill).vec();
  }
  void store(Index i, Vec<T> v) const {
    T* p = first + i * stride;
    if (width == lanes<T>()) {
      hn::StoreU(v, Tag<T>(), p);
    } else {
      store_first<T>(v, p, width);
    }
  }
  Widened<T> load_column(const double* p, double fill) const {
    return width == lanes<T>() ? load_wide<T>(p) : WideTail<T>(p, width, fill).wide();
  }
  void store_column(const Widened<T>& w, double* p) const {
    if (width == lanes<T>()) {
      store_wide<T>(w, p);
    } else {
      WideTail<T> tail(p, width, 0);
      store_wide<T>(w, tail.value);
      tail.copy_to(p, width);
    }
  }
};

template <class T, class Body>
void for_strips(MatrixView<T> tile, const Body& body) {
  using Value = std::remove_const_t<T>;
  for (Index j = 0; j < tile.cols; j += lanes<Value>()) {
    const Index width = tile.cols - j < lanes<Value>() ? tile.cols - j : lanes<Value>();
    // A const tile is never stored to.
    body(j, Strip<Value>{const_cast<Value*>(tile.data) + j, tile.row_stride, width});
  }
}

// Σ over the rows of one strip, moved to float64 every 64 terms.
template <class T>
class ColumnSum {
 public:
  explicit ColumnSum(const Widened<T>& start) : partial_(hn::Zero(Tag<T>())), total_(start) {}
  void add(Vec<T> v) {
    partial_ = hn::Add(partial_, v);
    if (++terms_ == terms_in_float) flush();
  }
  const Widened<T>& total() {
    flush();
    return total_;
  }

 private:
  void flush() {
    total_ = plus<T>(total_, Widened<T>::of(partial_));
    partial_ = hn::Zero(Tag<T>());
    terms_ = 0;
  }
  Vec<T> partial_;
  Index terms_ = 0;
  Widened<T> total_;
};

// Calls body(first, width) for each vector of a row; the last one may be incomplete.
template <class T, class Body>
void for_vectors(Index n, const Body& body) {
  const Index step = lanes<T>();
  for (Index j = 0; j < n; j += step) body(j, n - j < step ? n - j : step);
}

template <class T>
Vec<T> load_part(const T* p, Index width) {
  if (width == lanes<T>()) return hn::LoadU(Tag<T>(), p);
#if ATTN_HAS_MASKED_ACCESS
  return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<std::size_t>(width)), Tag<T>(), p);
#else
  return Tail<T>(p, width, 0).vec();
#endif
}

// Σ_j x_j y_j by lane, in two chains.
template <class T>
HWY_INLINE Vec<T> product_lanes(const T* x, const T* y, Index n) {
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
  return hn::Add(even, odd);
}

// Prefetches the row some rows after row i, perhaps beyond the end: the next call's rows mostly
// follow, and a prefetch never faults.
template <class T>
HWY_INLINE void prefetch_ahead(MatrixView<const T> b, Index i) {
  constexpr Index ahead = 8192 / sizeof(T);
  constexpr Index line = 64 / sizeof(T);
  const T* const row = b.row(i + 1 + ahead / (b.cols + 1));
  for (Index c = 0; c < b.cols; c += line) hwy::Prefetch(row + c);
}

template <class T>
void store_part(Vec<T> v, T* p, Index width) {
  if (width == lanes<T>()) {
    hn::StoreU(v, Tag<T>(), p);
  } else {
    store_first<T>(v, p, width);
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
