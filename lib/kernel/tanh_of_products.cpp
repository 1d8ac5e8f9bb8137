#include "kernel/tanh_of_products.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/tanh_of_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// Σ w − 2 Σ w/(1 + UV). Two terms share a division.
template <class T>
void EnergyOfProducts(const T* u, MatrixView<const T> v, const T* w, T* out) {
  const Tag<T> d;
  const Vec<T> one = hn::Set(d, T{1});
  double all = 0;
  for (Index a = 0; a < v.rows; ++a) all += static_cast<double>(w[a]);
  for_strips(MatrixView<T>(out, 1, v.cols), [&](Index j, const Strip<T>& strip) HWY_ATTR {
    // Never stored to.
    const Strip<T> keys{const_cast<T*>(v.data) + j, v.row_stride, strip.width};
    const auto divisor = [&](Index a) HWY_ATTR {
      return hn::MulAdd(hn::Set(d, u[a]), keys.load(a, 0), one);
    };
    ColumnSum<T> sum(broadcast_wide<T>(0));
    Index a = 0;
    for (; a + 2 <= v.rows; a += 2) {
      const Vec<T> left = divisor(a);
      const Vec<T> right = divisor(a + 1);
      const Vec<T> above = hn::MulAdd(hn::Set(d, w[a]), right, hn::Mul(hn::Set(d, w[a + 1]), left));
      sum.add(hn::Div(above, hn::Mul(left, right)));
    }
    if (a < v.rows) sum.add(hn::Div(hn::Set(d, w[a]), divisor(a)));
    Widened<T> energy = sum.total();
    for (auto& part : energy.part) {
      part = hn::NegMulAdd(hn::Set(Wide(), 2.0), part, hn::Set(Wide(), all));
    }
    strip.store(0, energy.narrow());
  });
}

template <class T>
void AddGradientOfProducts(const T* u, MatrixView<const T> v, const T* w, const T* grad, T* du,
                           MatrixView<T> dv, double* dw) {
  const Tag<T> d;
  const Vec<T> one = hn::Set(d, T{1});
  RowSum<T> all;
  for_vectors<T>(v.cols,
                 [&](Index j, Index width) HWY_ATTR { all.add(load_part<T>(grad + j, width)); });
  const double of_all = all.total();
  for (Index a = 0; a < v.rows; ++a) {
    const Vec<T> query = hn::Set(d, u[a]);
    const Vec<T> weight = hn::Set(d, 4 * w[a]);
    RowSum<T> of_query;
    RowSum<T> of_weight;
    for_vectors<T>(v.cols, [&](Index j, Index width) HWY_ATTR {
      // Beyond the last column the gradient is 0, and so are its products.
      const Vec<T> product = hn::Mul(query, load_part<T>(v.row(a) + j, width));
      const Vec<T> inverse = hn::Div(one, hn::Add(one, product));
      const Vec<T> part = hn::Mul(load_part<T>(grad + j, width), inverse);
      of_weight.add(part);
      const Vec<T> z = hn::Mul(hn::Mul(part, weight), hn::Mul(product, inverse));
      T* to = dv.row(a) + j;
      store_part<T>(hn::Add(load_part<T>(to, width), z), to, width);
      of_query.add(z);
    });
    du[a] += static_cast<T>(of_query.total());
    dw[a] += of_all - 2 * of_weight.total();
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                                  \
  KERNEL(T, void, energy_of_products, EnergyOfProducts,                                          \
         (const T* u, MatrixView<const T> v, const T* w, T* out), (u, v, w, out));               \
  KERNEL(T, void, add_gradient_of_products, AddGradientOfProducts,                               \
         (const T* u, MatrixView<const T> v, const T* w, const T* grad, T* du, MatrixView<T> dv, \
          double* dw),                                                                           \
         (u, v, w, grad, du, dv, dw))
#include "kernel/dispatch-inl.hpp"
