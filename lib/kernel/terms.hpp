#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Terms of a tile of scores other than products of vectors; dispatched at run time as in tile.hpp.
/// Each element is computed by itself: its bits depend neither on its place in a vector nor on its
/// tile.

/// out_ij = Σ_a w_a tanh(u_ia + v_aj) for u (m,A), v (A,n), w (A), out (m,n). u and v are finite,
/// and so is each u_ia + v_aj; w may be any number. tanh is within 4 ulp. The sum stays in T for at
/// most 64 terms and is kept in float64 beyond: for finite w the error is at most Σ|w_a| times 70 +
/// A/64 roundings (the rounding of u + v included), and about 3 if the terms have mixed signs.
void tanh_energy(MatrixView<const float> u, MatrixView<const float> v, const float* w,
                 MatrixView<float> out);
void tanh_energy(MatrixView<const double> u, MatrixView<const double> v, const double* w,
                 MatrixView<double> out);

/// s_j <- cap · tanh(s_j / cap) computed in float64, for a finite cap > 0 and s_j that is finite or
/// -inf; -inf stays -inf. float32: within 1 ulp; float64: within 6 ulp.
void soft_cap(float* row, Index n, double cap);
void soft_cap(double* row, Index n, double cap);

/// s_j <- T(((s_j + a_j) + b_j) + log p_j), computed in float64; a null pointer omits its term. b
/// is finite or -inf, p finite and >= 0 with log 0 = -inf, log within 4 ulp of float64.
void add_terms(float* row, Index n, const float* a, const float* b, const float* p);
void add_terms(double* row, Index n, const double* a, const double* b, const double* p);

}  // namespace attn::kernel
