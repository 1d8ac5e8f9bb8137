#include "kernel/packed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/packed_exp.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

template <class T>
void MultiplyExpPacked(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                       MatrixView<T> out, double* row_sum, double* col_sum, double* row_product) {
  multiply_exp<T>(alpha, as_it_lies(a), a.cols, b, col0, out, row_sum, col_sum, row_product);
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNEL_PREFIX template <>
#define ATTN_KERNELS(KERNEL, T)                                                              \
  KERNEL(T, void, multiply_exp_packed, MultiplyExpPacked,                                    \
         (T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0, MatrixView<T> out, \
          double* row_sum, double* col_sum, double* row_product),                            \
         (alpha, a, b, col0, out, row_sum, col_sum, row_product))
#include "kernel/dispatch-inl.hpp"
