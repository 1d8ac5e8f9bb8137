#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/view.hpp"

namespace attn::kernel {

/// Returns whether all n numbers are finite. Sets *largest_finite to the largest magnitude of the
/// finite ones, or to 0 if there are none, and *any_negative to whether any sign bit is set, also
/// that of −0 or of a NaN.
bool magnitudes(const float* x, Index n, float* largest_finite, bool* any_negative);
bool magnitudes(const double* x, Index n, double* largest_finite, bool* any_negative);

/// Σ_j x_j² for n finite numbers, in float64; infinite if it is beyond the range.
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

/// The largest Euclidean norm of a row of finite numbers, in float64; 0 for an empty matrix, and
/// infinite if a sum of squares is beyond the range.
template <class T>
double largest_norm(MatrixView<const T> matrix) {
  double largest = 0;
  for (Index i = 0; i < matrix.rows; ++i) {
    largest = std::max(largest, squared_norm(matrix.row(i), matrix.cols));
  }
  return std::sqrt(largest);
}

}  // namespace attn::kernel
