#pragma once

#include "tensor/shape.hpp"

namespace attn::kernel {

/// y_j = x_j Φ(x_j), Φ(x) = (1 + erf(x/√2))/2: GELU (Hendrycks and Gimpel, 2016), by erf. Error:
/// 4 roundings of T times max(|x_j|, 1e-3). `y` may be `x`.
void gelu(const float* x, Index n, float* y);
void gelu(const double* x, Index n, double* y);

/// dy_j ← dy_j (Φ(x_j) + x_j φ(x_j)), φ(x) = exp(−x²/2)/√(2π): the slope of gelu at x_j times dy_j.
/// Error of the slope: 8 roundings of T.
void gelu_slope(const float* x, Index n, float* dy);
void gelu_slope(const double* x, Index n, double* dy);

/// y_j = tanh(x_j), within 4 ulp. x_j is finite; `y` may be `x`.
void tanh_row(const float* x, Index n, float* y);
void tanh_row(const double* x, Index n, double* y);

/// y_j = σ(x_j) = 1/(1 + exp(−x_j)) = (1 + tanh(x_j/2))/2. Error: 2 roundings of T. x_j is finite;
/// `y` may be `x`.
void logistic_row(const float* x, Index n, float* y);
void logistic_row(const double* x, Index n, double* y);

}  // namespace attn::kernel
