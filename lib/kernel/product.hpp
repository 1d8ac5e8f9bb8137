#pragma once

#include "tensor/view.hpp"

/// Products of matrices on the calling thread. Extents may be 0; `out` must not alias the factors.
///
/// How a product is computed depends on the extents, the type and the instruction sets in use. If
/// callers divide the work by shape only, results have the same bits for any number of threads.
/// - a b and a bᵀ with few rows: few_rows.hpp reads b in place.
/// - At least 24 rows, sums of at least 16 terms, and little padding, on CPUs with AVX-512 or for
///   sums of at most 128 terms: blocked.hpp packs b. The thread keeps 256 KiB for it.
/// - Otherwise: BLAS, which may throw Error(memory) and, for extents beyond its integers,
///   std::length_error.
namespace attn::kernel {

/// out = a bᵀ for a (m,k), b (n,k), out (m,n).
void multiply_transposed(MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out);
void multiply_transposed(MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out);

/// out = a b for a (m,k), b (k,n), out (m,n).
void multiply(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);
void multiply(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out);

/// out += a b for a (m,k), b (k,n), out (m,n).
void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);
void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out);

/// out = aᵀ b for a (k,m), b (k,n), out (m,n).
void transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                        MatrixView<float> out);
void transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                        MatrixView<double> out);

/// out += aᵀ b for a (k,m), b (k,n), out (m,n).
void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out);
void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out);

}  // namespace attn::kernel
