#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/view.hpp"

/// Products with so few rows on the left that reading the right-hand factor bounds their speed. The
/// right-hand factor is read in place, not packed. Dispatched at run time to the best instruction
/// set of the CPU. The bits of each element depend only on its row and column.
namespace attn::kernel {

/// out = alpha · a bᵀ for a (m, k), b (n, k), out (m, n): fused sums by lane, then over the lanes.
void few_rows_transposed(float alpha, MatrixView<const float> a, MatrixView<const float> b,
                         MatrixView<float> out);
void few_rows_transposed(double alpha, MatrixView<const double> a, MatrixView<const double> b,
                         MatrixView<double> out);

/// out += a b for a (m, k), b (k, n), out (m, n): fused sums in the order of the inner index.
void few_rows_add(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);
void few_rows_add(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> out);

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
