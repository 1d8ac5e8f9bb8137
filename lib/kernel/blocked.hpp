#pragma once

#include "tensor/view.hpp"

/// The products of gemm.hpp for the many rows of layers, on the calling thread. Where the matrices
/// are large enough, the right-hand factor is packed block by block for the register tiles of
/// packed.hpp: OpenBLAS falls back to kernels of half the width on processors with AVX-512 that are
/// newer than it. Other products go to BLAS. The memory for a block, 256 KiB for each thread, is
/// kept.
///
/// The choice depends on extents only. Each element of a large product is a sum in the order of the
/// inner index, fused in T; sums over runs of 256 (for transposed products, 64) are added in order.
/// Arguments must not alias.
namespace attn::kernel::blocked {

/// out = a bᵀ for a (m,k), b (n,k), out (m,n).
void multiply_transposed(MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out);
void multiply_transposed(MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out);

/// out = a b for a (m,k), b (k,n), out (m,n).
void multiply(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);
void multiply(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out);

/// out += a b.
void multiply_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);
void multiply_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out);

/// out = aᵀ b for a (k,m), b (k,n), out (m,n).
void transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                        MatrixView<float> out);
void transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                        MatrixView<double> out);

/// out += aᵀ b.
void add_transposed_product(MatrixView<const float> a, MatrixView<const float> b,
                            MatrixView<float> out);
void add_transposed_product(MatrixView<const double> a, MatrixView<const double> b,
                            MatrixView<double> out);

}  // namespace attn::kernel::blocked
