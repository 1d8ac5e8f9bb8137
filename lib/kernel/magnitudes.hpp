#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/view.hpp"

namespace attn::kernel {

/// Whether the n numbers x contain neither a NaN nor an infinity. Also returns the largest finite
/// magnitude (0 without one), and whether any sign bit is set, including the sign of −0 and of a
/// NaN.
bool magnitudes(const float* x, Index n, float* largest_finite, bool* any_negative);
bool magnitudes(const double* x, Index n, double* largest_finite, bool* any_negative);

/// Σ_j x_j² for n finite numbers, in float64.
double squared_norm(const float* x, Index n);
double squared_norm(const double* x, Index n);

/// max_ij |x_ij| of a matrix of finite numbers; 0 if it is empty.
float largest_magnitude(MatrixView<const float> matrix);
double largest_magnitude(MatrixView<const double> matrix);

/// max_j |x_j| of n finite numbers; 0 for n = 0.
template <class T>
T largest_magnitude(const T* x, Index n) {
  return largest_magnitude(MatrixView<const T>(x, 1, n));
}

/// max_i ‖row i‖; 0 for an empty matrix.
template <class T>
double largest_norm(MatrixView<const T> matrix) {
  double largest = 0;
  for (Index i = 0; i < matrix.rows; ++i) {
    largest = std::max(largest, squared_norm(matrix.row(i), matrix.cols));
  }
  return std::sqrt(largest);
}

}  // namespace attn::kernel
