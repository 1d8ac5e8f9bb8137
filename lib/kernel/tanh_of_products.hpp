#pragma once

#include "tensor/view.hpp"

/// Energies of additive attention and their gradient without a tanh for each pair. Where u and v
/// meet in many pairs, their exponentials U = exp(2u) and V = exp(2v) are computed once, and tanh(u
/// + v) = 1 − 2/(1 + UV). Dispatched at run time as in tile.hpp; each element is computed by
/// itself.
namespace attn::kernel {

/// The largest |u| and |v|, and the largest |w|, for which no intermediate number overflows.
inline constexpr double largest_tanh_addend = 10;
inline constexpr double largest_tanh_weight = 1e6;

/// out_j = Σ_a w_a tanh(u_a + v_aj), for U, w (A) and V (A,n) within these bounds. Sums as in
/// tanh_energy: the error is at most Σ|w_a| times 80 + A/64 roundings, plus the error of U and V.
void energy_of_products(const float* u, MatrixView<const float> v, const float* w, float* out);
void energy_of_products(const double* u, MatrixView<const double> v, const double* w, double* out);

/// Its gradient: with z_aj = grad_j·w_a·(1 − tanh²(u_a + v_aj)), du_a += Σ_j z_aj, dv_aj += z_aj,
/// dw_a += Σ_j grad_j tanh(u_a + v_aj). The slope keeps its digits where tanh is near 1.
void add_gradient_of_products(const float* u, MatrixView<const float> v, const float* w,
                              const float* grad, float* du, MatrixView<float> dv, double* dw);
void add_gradient_of_products(const double* u, MatrixView<const double> v, const double* w,
                              const double* grad, double* du, MatrixView<double> dv, double* dw);

}  // namespace attn::kernel
