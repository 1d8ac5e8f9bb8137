#include "kernel/terms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/terms.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
void TanhEnergy(MatrixView<const T> u, MatrixView<const T> v, const T* w, MatrixView<T> out) {
  const Tag<T> d;
  for_strips(out, [&](Index j, const Strip<T>& strip) HWY_ATTR {
    // Never stored to.
    const Strip<T> keys{const_cast<T*>(v.data) + j, v.row_stride, strip.width};
    for (Index i = 0; i < out.rows; ++i) {
      const T* query = u.row(i);
      ColumnSum<T> sum(broadcast_wide<T>(0));
      for (Index a = 0; a < u.cols; ++a) {
        const Vec<T> x = hn::Add(hn::Set(d, query[a]), keys.load(a, 0));
        sum.add(hn::Mul(hn::Set(d, w[a]), hn::Tanh(d, x)));
      }
      strip.store(i, sum.total().narrow());
    }
  });
}

template <class T>
void SoftCap(T* row, Index n, double cap) {
  const Wide wide;
  const WideVec limit = hn::Set(wide, cap);
  const Vec<T> nothing = hn::Set(Tag<T>(), static_cast<T>(minus_infinity));
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> s = load_part<T>(row + j, width);
    Widened<T> capped = Widened<T>::of(s);
    for (auto& part : capped.part) part = hn::Mul(limit, hn::Tanh(wide, hn::Div(part, limit)));
    store_part<T>(hn::IfThenElse(hn::Eq(s, nothing), s, capped.narrow()), row + j, width);
  });
}

template <class T>
void AddTerms(T* row, Index n, const T* a, const T* b, const T* p) {
  const Tag<T> d;
  const Wide wide;
  const Vec<T> one = hn::Set(d, T{1});
  const Vec<T> nothing = hn::Set(d, static_cast<T>(minus_infinity));
  for_vectors<T>(n, [&](Index j, Index width) HWY_ATTR {
    const Vec<T> s = load_part<T>(row + j, width);
    Widened<T> sum = Widened<T>::of(s);
    // -inf is put back at the end: the emulated target narrows it to the lowest finite number.
    auto closed = hn::Eq(s, nothing);
    if (a != nullptr) sum = plus<T>(sum, Widened<T>::of(load_part<T>(a + j, width)));
    if (b != nullptr) {
      const Vec<T> bias = load_part<T>(b + j, width);
      closed = hn::Or(closed, hn::Eq(bias, nothing));
      sum = plus<T>(sum, Widened<T>::of(bias));
    }
    if (p != nullptr) {
      const Vec<T> preference = load_part<T>(p + j, width);
      const auto positive = hn::Gt(preference, hn::Zero(d));
      closed = hn::Or(closed, hn::Not(positive));
      Widened<T> log = Widened<T>::of(hn::IfThenElse(positive, preference, one));
      for (auto& part : log.part) part = hn::Log(wide, part);
      sum = plus<T>(sum, log);
    }
    store_part<T>(hn::IfThenElse(closed, nothing, sum.narrow()), row + j, width);
  });
}

// Names without overloads, as the dispatch tables need them.
#define ATTN_FOR_TYPE(T, suffix)                                                     \
  void TanhEnergy_##suffix(MatrixView<const T> u, MatrixView<const T> v, const T* w, \
                           MatrixView<T> out) {                                      \
    TanhEnergy<T>(u, v, w, out);                                                     \
  }                                                                                  \
  void SoftCap_##suffix(T* row, Index n, double cap) { SoftCap<T>(row, n, cap); }    \
  void AddTerms_##suffix(T* row, Index n, const T* a, const T* b, const T* p) {      \
    AddTerms<T>(row, n, a, b, p);                                                    \
  }
ATTN_FOR_TYPE(float, f32)
ATTN_FOR_TYPE(double, f64)
#undef ATTN_FOR_TYPE

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::kernel {

#define ATTN_EXPORT(T, suffix)                                                                    \
  HWY_EXPORT(TanhEnergy_##suffix);                                                                \
  HWY_EXPORT(SoftCap_##suffix);                                                                   \
  HWY_EXPORT(AddTerms_##suffix);                                                                  \
  void tanh_energy(MatrixView<const T> u, MatrixView<const T> v, const T* w, MatrixView<T> out) { \
    HWY_DYNAMIC_DISPATCH(TanhEnergy_##suffix)(u, v, w, out);                                      \
  }                                                                                               \
  void soft_cap(T* row, Index n, double cap) {                                                    \
    HWY_DYNAMIC_DISPATCH(SoftCap_##suffix)(row, n, cap);                                          \
  }                                                                                               \
  void add_terms(T* row, Index n, const T* a, const T* b, const T* p) {                           \
    HWY_DYNAMIC_DISPATCH(AddTerms_##suffix)(row, n, a, b, p);                                     \
  }
ATTN_EXPORT(float, f32)
ATTN_EXPORT(double, f64)
#undef ATTN_EXPORT

}  // namespace attn::kernel
#endif
