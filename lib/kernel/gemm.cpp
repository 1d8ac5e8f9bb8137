#include "kernel/gemm.hpp"

#include <cblas.h>

#include <limits>
#include <mutex>
#include <stdexcept>

namespace attn::kernel {
namespace {

// OpenBLAS would split a large enough tile over its own threads, and with it the sums.
void forbid_blas_threads() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

blasint checked(Index extent) {
  if (extent > std::numeric_limits<blasint>::max()) {
    throw std::length_error("tile extent beyond BLAS' integer");
  }
  return static_cast<blasint>(extent);
}

// BLAS insists on a leading dimension of at least 1 and of at least the row length.
blasint leading(Index stride) { return checked(stride > 0 ? stride : 1); }

}  // namespace

void multiply_transposed(float alpha, MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0) return;
  forbid_blas_threads();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, checked(out.rows), checked(out.cols),
              checked(a.cols), alpha, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              0.0F, out.data, leading(out.row_stride));
}

void multiply_transposed(double alpha, MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0) return;
  forbid_blas_threads();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, checked(out.rows), checked(out.cols),
              checked(a.cols), alpha, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              0.0, out.data, leading(out.row_stride));
}

void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0 || a.cols == 0) return;
  forbid_blas_threads();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, checked(out.rows), checked(out.cols),
              checked(a.cols), 1.0F, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              1.0F, out.data, leading(out.row_stride));
}

void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0 || a.cols == 0) return;
  forbid_blas_threads();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, checked(out.rows), checked(out.cols),
              checked(a.cols), 1.0, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              1.0, out.data, leading(out.row_stride));
}

void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0 || a.rows == 0) return;
  forbid_blas_threads();
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, checked(out.rows), checked(out.cols),
              checked(a.rows), 1.0F, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              1.0F, out.data, leading(out.row_stride));
}

void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0 || a.rows == 0) return;
  forbid_blas_threads();
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, checked(out.rows), checked(out.cols),
              checked(a.rows), 1.0, a.data, leading(a.row_stride), b.data, leading(b.row_stride),
              1.0, out.data, leading(out.row_stride));
}

std::string blas_description() {
  constexpr int pthread_build = 1;
  const int parallel = openblas_get_parallel();
  return std::string(openblas_get_config()) +
         (parallel == pthread_build ? " (pthread build, held to one thread)" : "");
}

}  // namespace attn::kernel
