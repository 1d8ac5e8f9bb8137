#include "kernel/factor.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/blas.hpp"
#include "kernel/eigen_map.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

// OpenBLAS contains LAPACK, but Debian's headers of that build declare only BLAS. These two
// factorisations stay with it: by Eigen, which uses only instructions that every CPU has, they take
// twice as long from 32 rows on. lambda-solve with dense matrices took 1.07 to 1.12 times as long
// by Eigen's LLT, and with fewer templates than axes 1.03 to 1.27 times as long by its
// HouseholderQR.
extern "C" {
void dpotrf_(const char* uplo, const blasint* n, double* a, const blasint* lda, blasint* info);
void dgeqrf_(const blasint* m, const blasint* n, double* a, const blasint* lda, double* tau,
             double* work, const blasint* lwork, blasint* info);
void dorgqr_(const blasint* m, const blasint* n, const blasint* k, double* a, const blasint* lda,
             const double* tau, double* work, const blasint* lwork, blasint* info);
}

namespace attn::kernel {

bool cholesky(MatrixView<double> a) {
  if (a.rows == 0) return true;
  const BlasCall call;
  const blasint n = blas_extent(a.rows);
  blasint info = 0;
  // LAPACK sees a row-major lower triangle as an upper one.
  dpotrf_("U", &n, a.data, &n, &info);
  return info == 0;
}

void cholesky_solve(MatrixView<const double> factor, double* x) {
  const auto matrix = eigen_map(factor);
  const auto lower = matrix.triangularView<Eigen::Lower>();
  Eigen::Map<Eigen::VectorXd> solution(x, factor.rows);
  lower.solveInPlace(solution);
  lower.transpose().solveInPlace(solution);
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
  eigen_map(coordinates) = eigen_map(a).leftCols(a.rows).triangularView<Eigen::Lower>();
  dorgqr_(&m, &n, &n, a.data, &m, tau.data(), work.data(), &size, &info);
}

double largest_singular_value(MatrixView<const double> a) {
  const auto matrix = eigen_map(a);
  if (matrix.size() == 0) return 0;
  const double size = matrix.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
  if (size == 0) return 0;
  // The root of the largest eigenvalue of aᵀ a; squares of numbers of at most 1 do not overflow.
  OwnedMatrix<double> scaled(a.rows, a.cols);
  OwnedMatrix<double> gram = OwnedMatrix<double>::zeros(a.cols, a.cols);
  eigen_map(scaled.view()) = matrix / size;
  add_gram(scaled.read(), 1, gram.view());
  const Eigen::SelfAdjointEigenSolver<RowMajor<double>> found(eigen_map(gram.view()),
                                                              Eigen::EigenvaluesOnly);
  if (found.info() != Eigen::Success) return std::numeric_limits<double>::quiet_NaN();
  return size * std::sqrt(std::max(found.eigenvalues()(a.cols - 1), 0.0));
}

void add_gram(MatrixView<const double> a, double factor, MatrixView<double> out) {
  if (a.rows == 0 || a.cols == 0) return;
  const BlasCall call;
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, blas_extent(a.cols), blas_extent(a.rows),
              factor, a.data, leading_dimension(a.row_stride), 1.0, out.data,
              leading_dimension(out.row_stride));
}

}  // namespace attn::kernel
