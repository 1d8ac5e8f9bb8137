#pragma once

#include "tensor/view.hpp"

/// Products on the calling thread, best with many rows on the left: the right-hand factor is packed
/// block by block for the register tiles of packed.hpp. The inner index, of extent 1 or more, is
/// cut into runs of 256 (for aᵀ b, of 64). Each run is summed in order, fused in T; the sums of the
/// runs are added in order. `block` is memory for block_numbers<T> numbers. `out` and `block` must
/// not alias each other or the factors.
namespace attn::kernel {

/// Numbers of a packed block: 256 KiB, half of a usual second-level cache.
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
