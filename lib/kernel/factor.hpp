#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Small dense factorisations by LAPACK or Eigen, on the calling thread only. Matrices are square
/// or tall, and contiguous (row_stride == cols). The results of a matrix that is not finite are
/// not finite either.

/// Replaces the lower triangle of the symmetric `a`, the only one that is read, by the Cholesky
/// factor L, a = L Lᵀ. Returns false if `a` is not positive definite; its contents are then
/// unspecified. If `a` is not finite, returns false or writes a factor that is not.
bool cholesky(MatrixView<double> a);

/// x ← a⁻¹ x, given the factor from cholesky. The bits are the same on every CPU.
void cholesky_solve(MatrixView<const double> factor, double* x);

/// For a (n, d) with n <= d: aᵀ = Q R. Replaces the rows of a by the n orthonormal columns of Q,
/// and writes the rows of Rᵀ to `coordinates` (n, n), lower triangular: the rows of a in the basis
/// Q. Rows may depend on each other.
void orthonormal_rows(MatrixView<double> a, MatrixView<double> coordinates);

/// The largest singular value of a square matrix, as the root of the largest eigenvalue of aᵀ a; 0
/// if the matrix is empty, NaN in the rare case that the iteration does not converge. Relative
/// error about n roundings of float64. Takes about n² numbers from malloc, as Eigen knows no pool.
double largest_singular_value(MatrixView<const double> a);

/// Adds factor · aᵀ a to the lower triangle of out (d, d), for a (n, d), by BLAS.
void add_gram(MatrixView<const double> a, double factor, MatrixView<double> out);

}  // namespace attn::kernel
