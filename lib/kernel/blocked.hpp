#pragma once

#include <cstddef>

#include "tensor/view.hpp"

/// Products with many rows on the left, on the calling thread: the right-hand factor is packed
/// block by block for the register tiles of packed.hpp. Each element is a sum in the order of the
/// inner index, fused in T; sums over runs of 256 (for transposed products, 64) are added in order.
/// Arguments must not alias. `block` is memory for block_numbers<T> numbers.
namespace attn::kernel {

/// Numbers of a packed block: half of a second-level cache.
template <class T>
inline constexpr Index block_numbers = (Index{256} << 10) / Index{sizeof(T)};

/// out = a bᵀ for a (m,k), b (n,k), out (m,n).
void blocked_transposed_right(MatrixView<const float> a, MatrixView<const float> b,
                              MatrixView<float> out, float* block);
void blocked_transposed_right(MatrixView<const double> a, MatrixView<const double> b,
                              MatrixView<double> out, double* block);

/// out = a b, or with `adds` out += a b, for a (m,k), b (k,n), out (m,n).
void blocked_right(MatrixView<const float> a, MatrixView<const float> b, bool adds,
                   MatrixView<float> out, float* block);
void blocked_right(MatrixView<const double> a, MatrixView<const double> b, bool adds,
                   MatrixView<double> out, double* block);

/// out = aᵀ b, or with `adds` out += aᵀ b, for a (k,m), b (k,n), out (m,n).
void blocked_transposed_left(MatrixView<const float> a, MatrixView<const float> b, bool adds,
                             MatrixView<float> out, float* block);
void blocked_transposed_left(MatrixView<const double> a, MatrixView<const double> b, bool adds,
                             MatrixView<double> out, double* block);

}  // namespace attn::kernel
