#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Small dense factorisations, by LAPACK on the calling thread alone. Matrices are square or tall,
/// finite, and hold their rows next to each other (row_stride == cols).

/// Replaces the symmetric `a`, of which the lower triangle is read, by its Cholesky factor L,
/// a = L Lᵀ, in that triangle. False: it is not positive definite, and `a` is spoilt.
bool cholesky(MatrixView<double> a);

/// x ← a⁻¹ x for the factor that cholesky left.
void cholesky_solve(MatrixView<const double> factor, double* x);

/// X ← X a⁻¹ row by row: the same for all rows of x (m, n).
void cholesky_solve_rows(MatrixView<const double> factor, MatrixView<double> x);

/// For a (n, d) with n <= d: aᵀ = Q R. Replaces a's rows by the n orthonormal columns of Q, and
/// writes to `coordinates` (n, n) the rows of Rᵀ: those of a in the basis Q, lower triangular.
void orthonormal_rows(MatrixView<double> a, MatrixView<double> coordinates);

/// Adds factor · aᵀ a to the lower triangle of out (d, d), for a (n, d).
void add_gram(MatrixView<const double> a, double factor, MatrixView<double> out);

}  // namespace attn::kernel
