#pragma once

#include "tensor/view.hpp"

namespace attn::kernel {

/// Reductions and exponentials over rows and columns of a tile of scores. SIMD, dispatched at run
/// time to the best instruction set of the CPU.
///
/// Common to all: scores are finite or -inf, never NaN or +inf (a NaN would be hidden: SIMD
/// exponentials turn it into 0). Potentials and shifts are float64, finite or +inf: subtracting
/// +inf masks a row or column, whose exponentials are then 0. Differences are taken in float64,
/// left to right, so that large potentials cost no digits. Sums of float32 terms stay in float32
/// for at most 64 terms a lane and are kept in float64 beyond. exp is within 1 ulp.

/// max_j (s_j - g_j); -inf if n = 0 or nothing is allowed. A null `g` means zero.
double row_max(const float* s, Index n, const double* g);
double row_max(const double* s, Index n, const double* g);

/// out_j = exp((s_j - g_j) - shift); returns Σ_j out_j. `out` may be `s`. A null `g` means zero;
/// then `shift` must be a value of the tile's type, for the float32 difference to be the exact one
/// rounded once.
double exp_row(float* out, const float* s, Index n, const double* g, double shift);
double exp_row(double* out, const double* s, Index n, const double* g, double shift);

/// row_j *= factor.
void scale_row(float* row, Index n, double factor);
void scale_row(double* row, Index n, double factor);

/// out_j += factor · in_j.
void add_scaled_row(float* out, const float* in, Index n, double factor);
void add_scaled_row(double* out, const double* in, Index n, double factor);

/// Σ_j -p_j log p_j with 0 log 0 = 0, for p_j >= 0. Relative error of each term about 4 ulp.
double entropy_row(const float* p, Index n);
double entropy_row(const double* p, Index n);

/// Σ_j p_j s_j, products and sums in float64; a term with p_j = 0 is 0 even if s_j is -inf.
double weighted_sum(const float* p, const float* s, Index n);
double weighted_sum(const double* p, const double* s, Index n);

/// max_j = max(max_j, max_i (s_ij - f_i)), columns of the tile. A null `f` means zero.
void column_max(MatrixView<const float> s, const double* f, double* max);
void column_max(MatrixView<const double> s, const double* f, double* max);

/// s_ij <- exp((s_ij - f_i) - shift_j) in place, and sum_j += Σ_i s_ij of the new values. A null
/// `f` means zero. Each shift must then be a value of the tile's type and at least the column's
/// largest score, and exponentials below the smallest normal number of float32 become 0.
void exp_columns(MatrixView<float> s, const double* f, const double* shift, double* sum);
void exp_columns(MatrixView<double> s, const double* f, const double* shift, double* sum);

/// tile_ij *= factor_j.
void scale_columns(MatrixView<float> tile, const double* factor);
void scale_columns(MatrixView<double> tile, const double* factor);

/// sum_j += Σ_i tile_ij.
void add_columns(MatrixView<const float> tile, double* sum);
void add_columns(MatrixView<const double> tile, double* sum);

/// tile_ij = T(tile_ij + (row_i + col_j)), taken in float64: the norms of the gaussian energy.
void add_outer(MatrixView<float> tile, const double* row, const double* col);
void add_outer(MatrixView<double> tile, const double* row, const double* col);

/// The instruction set in use (targets.hpp): "AVX2".
const char* simd_description();

}  // namespace attn::kernel
