#include "kernel/gemm.hpp"

#include "kernel/blas.hpp"

namespace attn::kernel {
void multiply_transposed(float alpha, MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0) return;
  prepare_blas();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(a.cols), alpha, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), 0.0F, out.data, leading_dimension(out.row_stride));
}

void multiply_transposed(double alpha, MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0) return;
  prepare_blas();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(a.cols), alpha, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), 0.0, out.data, leading_dimension(out.row_stride));
}

void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0 || a.cols == 0) return;
  prepare_blas();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_extent(out.rows),
              blas_extent(out.cols), blas_extent(a.cols), 1.0F, a.data,
              leading_dimension(a.row_stride), b.data, leading_dimension(b.row_stride), 1.0F,
              out.data, leading_dimension(out.row_stride));
}

void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0 || a.cols == 0) return;
  prepare_blas();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_extent(out.rows),
              blas_extent(out.cols), blas_extent(a.cols), 1.0, a.data,
              leading_dimension(a.row_stride), b.data, leading_dimension(b.row_stride), 1.0,
              out.data, leading_dimension(out.row_stride));
}

void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out) {
  if (out.rows == 0 || out.cols == 0 || a.rows == 0) return;
  prepare_blas();
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(a.rows), 1.0F, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), 1.0F, out.data, leading_dimension(out.row_stride));
}

void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out) {
  if (out.rows == 0 || out.cols == 0 || a.rows == 0) return;
  prepare_blas();
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(a.rows), 1.0, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), 1.0, out.data, leading_dimension(out.row_stride));
}

std::string blas_description() {
  constexpr int pthread_build = 1;
  const int parallel = openblas_get_parallel();
  return std::string(openblas_get_config()) +
         (parallel == pthread_build ? " (pthread build, held to one thread)" : "");
}

}  // namespace attn::kernel
