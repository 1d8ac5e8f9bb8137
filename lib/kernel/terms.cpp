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
        sum.add(hn::Mul(hn::Set(d, w[a]), tanh_of(x)));
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

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                                \
  KERNEL(T, void, tanh_energy, TanhEnergy,                                                     \
         (MatrixView<const T> u, MatrixView<const T> v, const T* w, MatrixView<T> out),        \
         (u, v, w, out));                                                                      \
  KERNEL(T, void, soft_cap, SoftCap, (T * row, Index n, double cap), (row, n, cap));           \
  KERNEL(T, void, add_terms, AddTerms, (T * row, Index n, const T* a, const T* b, const T* p), \
         (row, n, a, b, p))
#include "kernel/dispatch-inl.hpp"
