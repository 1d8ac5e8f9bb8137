#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Small dense factorisations by LAPACK, on the calling thread only. Matrices are square or tall,
/// finite and contiguous (row_stride == cols).

/// Replaces the lower triangle of the symmetric `a`, the only one that is read, by the Cholesky
/// factor L, a = L Lᵀ. Returns false if `a` is not positive definite; its contents are then
/// unspecified.
bool cholesky(MatrixView<double> a);

/// x ← a⁻¹ x, given the factor from cholesky.
void cholesky_solve(MatrixView<const double> factor, double* x);

/// X ← X a⁻¹, row by row, for x (m, n).
void cholesky_solve_rows(MatrixView<const double> factor, MatrixView<double> x);

/// For a (n, d) with n <= d: aᵀ = Q R. Replaces the rows of a by the n orthonormal columns of Q,
/// and writes the rows of Rᵀ to `coordinates` (n, n), lower triangular: the rows of a in the basis
/// Q.
void orthonormal_rows(MatrixView<double> a, MatrixView<double> coordinates);

/// The largest singular value of a square matrix; 0 if the matrix is empty, NaN in the rare case
/// that LAPACK's iteration does not converge. Relative error about n roundings of float64.
double largest_singular_value(MatrixView<const double> a);

/// Adds factor · aᵀ a to the lower triangle of out (d, d), for a (n, d).
void add_gram(MatrixView<const double> a, double factor, MatrixView<double> out);

}  // namespace attn::kernel
