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

}  // namespace attn::kernel
