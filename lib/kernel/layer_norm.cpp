#include "kernel/layer_norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
double sum_of_squares(const T* x, Index n, T mean) {
  const Tag<T> d;
  const Vec<T> centre = hn::Set(d, mean);
  RowSum<T> sum;
  for_vectors<T>(n, [&](Index c, Index width) HWY_ATTR {
    // Lanes past the end are the mean, and add 0.
    const Vec<T> value =
        width == lanes<T>() ? hn::LoadU(d, x + c) : Tail<T>(x + c, width, mean).vec();
    const Vec<T> away = hn::Sub(value, centre);
    sum.add(hn::Mul(away, away));
  });
  return sum.total();
}

template <class T>
double sum_of(const T* x, Index n) {
  RowSum<T> sum;
  for_vectors<T>(n, [&](Index c, Index width) HWY_ATTR { sum.add(load_part<T>(x + c, width)); });
  return sum.total();
}

template <class T>
void LayerNorm(MatrixView<const T> x, const T* gain, const T* shift, double epsilon,
               MatrixView<T> y, T* mean, T* inverse) {
  const Tag<T> d;
  const double n = static_cast<double>(x.cols);
  for (Index i = 0; i < x.rows; ++i) {
    const T* from = x.row(i);
    T* to = y.row(i);
    mean[i] = static_cast<T>(sum_of(from, x.cols) / n);
    inverse[i] = static_cast<T>(1 / std::sqrt(sum_of_squares(from, x.cols, mean[i]) / n + epsilon));
    const Vec<T> centre = hn::Set(d, mean[i]);
    const Vec<T> factor = hn::Set(d, inverse[i]);
    for_vectors<T>(x.cols, [&](Index c, Index width) HWY_ATTR {
      const Vec<T> normal = hn::Mul(hn::Sub(load_part<T>(from + c, width), centre), factor);
      store_part<T>(
          hn::MulAdd(load_part<T>(gain + c, width), normal, load_part<T>(shift + c, width)), to + c,
          width);
    });
  }
}

template <class T>
void LayerNormGradient(MatrixView<const T> x, const T* mean, const T* inverse, const T* gain,
                       MatrixView<const T> dy, MatrixView<T> dx, T* dgain, T* dshift) {
  const Tag<T> d;
  const double n = static_cast<double>(x.cols);
  for (Index i = 0; i < x.rows; ++i) {
    const T* from = x.row(i);
    const T* above = dy.row(i);
    T* to = dx.row(i);
    const Vec<T> centre = hn::Set(d, mean[i]);
    const Vec<T> factor = hn::Set(d, inverse[i]);
    RowSum<T> sum;
    RowSum<T> product;
    for_vectors<T>(x.cols, [&](Index c, Index width) HWY_ATTR {
      const Vec<T> up = load_part<T>(above + c, width);
      const Vec<T> normal = hn::Mul(hn::Sub(load_part<T>(from + c, width), centre), factor);
      const Vec<T> g = hn::Mul(up, load_part<T>(gain + c, width));
      sum.add(g);
      product.add(hn::Mul(g, normal));
      const Vec<T> gain_sum = hn::MulAdd(up, normal, load_part<T>(dgain + c, width));
      store_part<T>(gain_sum, dgain + c, width);
      store_part<T>(hn::Add(up, load_part<T>(dshift + c, width)), dshift + c, width);
    });
    const Vec<T> mean_of_g = hn::Set(d, static_cast<T>(sum.total() / n));
    const Vec<T> mean_of_product = hn::Set(d, static_cast<T>(product.total() / n));
    for_vectors<T>(x.cols, [&](Index c, Index width) HWY_ATTR {
      const Vec<T> normal = hn::Mul(hn::Sub(load_part<T>(from + c, width), centre), factor);
      const Vec<T> g = hn::Mul(load_part<T>(above + c, width), load_part<T>(gain + c, width));
      const Vec<T> rest = hn::NegMulAdd(normal, mean_of_product, hn::Sub(g, mean_of_g));
      store_part<T>(hn::Mul(factor, rest), to + c, width);
    });
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                                  \
  KERNEL(T, void, layer_norm, LayerNorm,                                                         \
         (MatrixView<const T> x, const T* gain, const T* shift, double epsilon, MatrixView<T> y, \
          T* mean, T* inverse),                                                                  \
         (x, gain, shift, epsilon, y, mean, inverse));                                           \
  KERNEL(T, void, layer_norm_gradient, LayerNormGradient,                                        \
         (MatrixView<const T> x, const T* mean, const T* inverse, const T* gain,                 \
          MatrixView<const T> dy, MatrixView<T> dx, T* dgain, T* dshift),                        \
         (x, mean, inverse, gain, dy, dx, dgain, dshift))
#include "kernel/dispatch-inl.hpp"
