#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Layer normalisation of each row x_i of a matrix (n columns, n >= 1):
///
///   mean_i = Σ_c x_ic / n,   inverse_i = 1/√(Σ_c (x_ic − mean_i)² / n + epsilon),
///   y_ic = gain_c (x_ic − mean_i) inverse_i + shift_c.
///
/// Sums of float32 terms stay in float32 for at most 64 terms a lane. `y` may be `x`.
void layer_norm(MatrixView<const float> x, const float* gain, const float* shift, double epsilon,
                MatrixView<float> y, float* mean, float* inverse);
void layer_norm(MatrixView<const double> x, const double* gain, const double* shift, double epsilon,
                MatrixView<double> y, double* mean, double* inverse);

/// The gradients of a loss from dy = ∂L/∂y, with x̂ = (x − mean) inverse and g = gain dy:
///
///   dx_i = inverse_i (g_i − mean(g_i) − x̂_i mean(g_i x̂_i)),
///   dgain_c += Σ_i dy_ic x̂_ic,   dshift_c += Σ_i dy_ic, added in the order of rows.
///
/// `dx` may be `dy`.
void layer_norm_gradient(MatrixView<const float> x, const float* mean, const float* inverse,
                         const float* gain, MatrixView<const float> dy, MatrixView<float> dx,
                         float* dgain, float* dshift);
void layer_norm_gradient(MatrixView<const double> x, const double* mean, const double* inverse,
                         const double* gain, MatrixView<const double> dy, MatrixView<double> dx,
                         double* dgain, double* dshift);

}  // namespace attn::kernel
