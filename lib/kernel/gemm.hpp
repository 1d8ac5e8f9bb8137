#pragma once

#include <string>

#include "tensor/view.hpp"

namespace attn::kernel {

/// Products of tiles by BLAS, on the calling thread only: a partition fixed by the shape then
/// yields the same bits on any number of threads. Extents may be 0; arguments must not alias.

/// out = alpha · a bᵀ for a (m,k), b (n,k), out (m,n).
void multiply_transposed(float alpha, MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out);
void multiply_transposed(double alpha, MatrixView<const double> a, MatrixView<const double> b,
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

/// Name and build of the BLAS: "OpenBLAS 0.3.21 ... openmp".
std::string blas_description();

}  // namespace attn::kernel
