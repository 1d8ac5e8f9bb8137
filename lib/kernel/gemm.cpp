#include "kernel/gemm.hpp"

#include "kernel/blas.hpp"

namespace attn::kernel {
namespace {

void call_blas(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, Index depth, float alpha,
               MatrixView<const float> a, MatrixView<const float> b, float beta,
               MatrixView<float> out) {
  cblas_sgemm(CblasRowMajor, of_a, of_b, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(depth), alpha, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), beta, out.data, leading_dimension(out.row_stride));
}

void call_blas(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, Index depth, double alpha,
               MatrixView<const double> a, MatrixView<const double> b, double beta,
               MatrixView<double> out) {
  cblas_dgemm(CblasRowMajor, of_a, of_b, blas_extent(out.rows), blas_extent(out.cols),
              blas_extent(depth), alpha, a.data, leading_dimension(a.row_stride), b.data,
              leading_dimension(b.row_stride), beta, out.data, leading_dimension(out.row_stride));
}

// out = alpha · op(a) op(b) + beta · out, with op the transpose where asked for.
template <class T>
void product(CBLAS_TRANSPOSE of_a, CBLAS_TRANSPOSE of_b, T alpha, MatrixView<const T> a,
             MatrixView<const T> b, T beta, MatrixView<T> out) {
  const Index depth = of_a == CblasTrans ? a.rows : a.cols;
  if (out.rows == 0 || out.cols == 0 || (depth == 0 && beta == 1)) return;
  const BlasCall call;
  call_blas(of_a, of_b, depth, alpha, a, b, beta, out);
}

}  // namespace

void multiply_transposed(float alpha, MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out) {
  product(CblasNoTrans, CblasTrans, alpha, a, b, 0.0F, out);
}

void multiply_transposed(double alpha, MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out) {
  product(CblasNoTrans, CblasTrans, alpha, a, b, 0.0, out);
}

void multiply(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  product(CblasNoTrans, CblasNoTrans, 1.0F, a, b, 0.0F, out);
}

void multiply(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  product(CblasNoTrans, CblasNoTrans, 1.0, a, b, 0.0, out);
}

void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  product(CblasNoTrans, CblasNoTrans, 1.0F, a, b, 1.0F, out);
}

void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out) {
  product(CblasNoTrans, CblasNoTrans, 1.0, a, b, 1.0, out);
}

void transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                        MatrixView<float> out) {
  product(CblasTrans, CblasNoTrans, 1.0F, a, b, 0.0F, out);
}

void transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                        MatrixView<double> out) {
  product(CblasTrans, CblasNoTrans, 1.0, a, b, 0.0, out);
}

void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out) {
  product(CblasTrans, CblasNoTrans, 1.0F, a, b, 1.0F, out);
}

void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out) {
  product(CblasTrans, CblasNoTrans, 1.0, a, b, 1.0, out);
}

std::string blas_description() {
  constexpr int pthread_build = 1;
  const int parallel = openblas_get_parallel();
  return std::string(openblas_get_config()) +
         (parallel == pthread_build ? " (pthread build, held to one thread)" : "");
}

}  // namespace attn::kernel
