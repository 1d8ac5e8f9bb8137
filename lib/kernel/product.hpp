#pragma once

#include "tensor/view.hpp"

/// Products of matrices on the calling thread. Extents may be 0; `out` must not alias the factors.
///
/// How a product is computed depends on its extents and on the CPU only. A partition that the shape
/// fixes therefore yields the same bits on any number of threads.
/// - Few rows: the right-hand factor is read in place (few_rows.hpp).
/// - Many rows: it is packed block by block (blocked.hpp), on CPUs with AVX-512 or for short sums.
/// - Otherwise BLAS.
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
