#pragma once

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

}  // namespace attn::kernel
