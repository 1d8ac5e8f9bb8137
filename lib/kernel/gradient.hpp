#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Tile operations that gradients need besides products; dispatched at run time as in tile.hpp.
/// Sums of float32 terms stay in float32 for at most 64 terms a lane and are kept in float64
/// beyond.

/// x_ij = weight·g_ij + row_i + factor_i·col_j: the gradient of a tile's scores is its weights
/// times this. All values are finite.
template <class T>
struct Adjoint {
  MatrixView<const T> g;      ///< of the tile's shape; null `data` omits the first term
  T weight = 1;               ///< of g
  const T* row = nullptr;     ///< null omits the second term
  const T* factor = nullptr;  ///< null omits the third term
  const T* col = nullptr;
};

/// out_ij = p_ij·x_ij, with `add` out_ij += p_ij·x_ij. `out` may be x.g. Error: four roundings of
/// p_ij·(|weight·g_ij| + |row_i| + |factor_i·col_j|), with `add` one more of the sum.
void adjoint_of_scores(MatrixView<const float> p, const Adjoint<float>& x, bool add,
                       MatrixView<float> out);
void adjoint_of_scores(MatrixView<const double> p, const Adjoint<double>& x, bool add,
                       MatrixView<double> out);

/// sum_j += Σ_i p_ij·x_ij.
void add_adjoint_columns(MatrixView<const float> p, const Adjoint<float>& x, double* sum);
void add_adjoint_columns(MatrixView<const double> p, const Adjoint<double>& x, double* sum);

/// sum_j += Σ_i factor_i·p_ij, all in float64.
void add_weighted_columns(MatrixView<const float> p, const double* factor, double* sum);
void add_weighted_columns(MatrixView<const double> p, const double* factor, double* sum);

/// sum_j += Σ_i (p_ij − r_ij)·x_ij for given weights p_ij = r_ij·exp(row_i − col_j). Where p and r
/// are close, their difference is taken as r_ij·expm1(row_i − col_j), so that no digits cancel. row
/// is finite, col finite or +inf. Relative error of each difference: 8 roundings of T.
void add_difference_columns(MatrixView<const float> p, MatrixView<const float> r, const double* row,
                            const double* col, const Adjoint<float>& x, double* sum);
void add_difference_columns(MatrixView<const double> p, MatrixView<const double> r,
                            const double* row, const double* col, const Adjoint<double>& x,
                            double* sum);

/// Σ_j p_j·x_j, each product in float64; a null `x` means ones.
double dot_row(const float* p, const double* x, Index n);
double dot_row(const double* p, const double* x, Index n);

/// grad_j <- grad_j·(1 − tanh²(s_j / cap)), the slope of soft_cap, for a finite cap > 0. Computed
/// as 4e/(1 + e)² with e = exp(−2|s_j| / cap) in float64, which keeps its digits where tanh is near
/// 1: relative error 2|s_j|/cap + 16 roundings of float64, and one of T.
void soft_cap_slope(float* grad, const float* s, Index n, double cap);
void soft_cap_slope(double* grad, const double* s, Index n, double cap);

/// The gradient of tanh_energy: with z_ija = grad_ij·w_a·(1 − tanh²(u_ia + v_aj)), du_ia += Σ_j
/// z_ija, dv_aj += Σ_i z_ija, dw_a += Σ_ij grad_ij tanh(u_ia + v_aj), for u, du (m,A), v, dv (A,n),
/// w, dw (A), grad (m,n). The slope keeps its digits where tanh is near 1, as in soft_cap_slope.
void add_tanh_gradient(MatrixView<const float> u, MatrixView<const float> v, const float* w,
                       MatrixView<const float> grad, MatrixView<float> du, MatrixView<float> dv,
                       double* dw);
void add_tanh_gradient(MatrixView<const double> u, MatrixView<const double> v, const double* w,
                       MatrixView<const double> grad, MatrixView<double> du, MatrixView<double> dv,
                       double* dw);

}  // namespace attn::kernel
