#include "kernel/factor.hpp"

#include <algorithm>
#include <limits>

#include "kernel/blas.hpp"
#include "tensor/pooled_vector.hpp"

// OpenBLAS contains LAPACK, but Debian's headers of that build declare only BLAS.
extern "C" {
void dpotrf_(const char* uplo, const blasint* n, double* a, const blasint* lda, blasint* info);
void dpotrs_(const char* uplo, const blasint* n, const blasint* columns, const double* a,
             const blasint* lda, double* b, const blasint* ldb, blasint* info);
void dgeqrf_(const blasint* m, const blasint* n, double* a, const blasint* lda, double* tau,
             double* work, const blasint* lwork, blasint* info);
void dorgqr_(const blasint* m, const blasint* n, const blasint* k, double* a, const blasint* lda,
             const double* tau, double* work, const blasint* lwork, blasint* info);
void dgesvd_(const char* jobu, const char* jobvt, const blasint* m, const blasint* n, double* a,
             const blasint* lda, double* s, double* u, const blasint* ldu, double* vt,
             const blasint* ldvt, double* work, const blasint* lwork, blasint* info);
}

namespace attn::kernel {

// LAPACK sees a row-major lower triangle as an upper one.
constexpr const char* triangle = "U";

bool cholesky(MatrixView<double> a) {
  if (a.rows == 0) return true;
  const BlasCall call;
  const blasint n = blas_extent(a.rows);
  blasint info = 0;
  dpotrf_(triangle, &n, a.data, &n, &info);
  return info == 0;
}

void cholesky_solve_rows(MatrixView<const double> factor, MatrixView<double> x) {
  if (factor.rows == 0 || x.rows == 0) return;
  const BlasCall call;
  const blasint n = blas_extent(factor.rows);
  const blasint columns = blas_extent(x.rows);
  const blasint stride = leading_dimension(x.row_stride);
  blasint info = 0;
  dpotrs_(triangle, &n, &columns, factor.data, &n, x.data, &stride, &info);
}

void cholesky_solve(MatrixView<const double> factor, double* x) {
  cholesky_solve_rows(factor, MatrixView<double>(x, 1, factor.rows));
}

void orthonormal_rows(MatrixView<double> a, MatrixView<double> coordinates) {
  if (a.rows == 0) return;
  const BlasCall call;
  const blasint m = blas_extent(a.cols);
  const blasint n = blas_extent(a.rows);
  constexpr Index block = 64;
  const blasint size = blas_extent(block * a.rows);
  PooledVector<double> tau(static_cast<std::size_t>(a.rows));
  PooledVector<double> work(static_cast<std::size_t>(size));
  blasint info = 0;
  dgeqrf_(&m, &n, a.data, &m, tau.data(), work.data(), &size, &info);
  for (Index i = 0; i < a.rows; ++i) {
    std::copy_n(a.row(i), i + 1, coordinates.row(i));
    std::fill_n(coordinates.row(i) + i + 1, a.rows - i - 1, 0.0);
  }
  dorgqr_(&m, &n, &n, a.data, &m, tau.data(), work.data(), &size, &info);
}

double largest_singular_value(MatrixView<const double> a) {
  if (a.rows == 0) return 0;
  const BlasCall call;
  const blasint n = blas_extent(a.rows);
  const blasint size = blas_extent(8 * a.rows);
  PooledVector<double> matrix(a.data, a.data + a.rows * a.rows);
  PooledVector<double> values(static_cast<std::size_t>(a.rows));
  PooledVector<double> work(static_cast<std::size_t>(size));
  const blasint one = 1;
  double none = 0;
  blasint info = 0;
  dgesvd_("N", "N", &n, &n, matrix.data(), &n, values.data(), &none, &one, &none, &one, work.data(),
          &size, &info);
  return info == 0 ? values.front() : std::numeric_limits<double>::quiet_NaN();
}

void add_gram(MatrixView<const double> a, double factor, MatrixView<double> out) {
  if (a.rows == 0 || a.cols == 0) return;
  const BlasCall call;
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, blas_extent(a.cols), blas_extent(a.rows),
              factor, a.data, leading_dimension(a.row_stride), 1.0, out.data,
              leading_dimension(out.row_stride));
}

}  // namespace attn::kernel
