// Compiles the kernels that a file lists, for float and double and for each instruction set, and
// defines the functions that call the version for the CPU in use. The list is a macro
// ATTN_KERNELS(KERNEL, T); its entry
//
//   KERNEL(T, double, row_max, RowMax, (const T* s, Index n, const double* g), (s, n, g))
//
// defines `double row_max(const T*, Index, const double*)` to call RowMax<T>(s, n, g). If the
// functions specialise a template, ATTN_KERNEL_PREFIX is `template <>`. Highway's tables hold only
// plain functions, hence RowMax_float and RowMax_double between the two.
//
// Include it after the code that is compiled once per instruction set, outside the namespaces of
// that code. It has no #pragma once because it is included once per instruction set.

#include "kernel/targets.hpp"

#ifndef ATTN_KERNEL_PREFIX
#define ATTN_KERNEL_PREFIX
#endif

#define ATTN_TARGET_KERNEL(T, result, name, kernel, parameters, arguments) \
  result kernel##_##T parameters { return kernel<T> arguments; }

#define ATTN_DISPATCH_KERNEL(T, result, name, kernel, parameters, arguments) \
  ATTN_EXPORT(kernel##_##T);                                                 \
  ATTN_KERNEL_PREFIX result name parameters { return ATTN_CHOSEN(kernel##_##T) arguments; }

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

ATTN_KERNELS(ATTN_TARGET_KERNEL, float);
ATTN_KERNELS(ATTN_TARGET_KERNEL, double);

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::kernel {

ATTN_KERNELS(ATTN_DISPATCH_KERNEL, float);
ATTN_KERNELS(ATTN_DISPATCH_KERNEL, double);

}  // namespace attn::kernel
#endif

#undef ATTN_KERNEL_PREFIX
#undef ATTN_TARGET_KERNEL
#undef ATTN_DISPATCH_KERNEL
#undef ATTN_KERNELS
