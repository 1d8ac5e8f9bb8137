#pragma once

#include "tensor/view.hpp"

/// Online softmax: the normaliser is complete only after the last tile, so each tile is left as
/// exponentials, and the factors that normalise it follow later. SIMD, dispatched at run time as in
/// tile.hpp; as there, scores are finite or −inf. Results are within 1.2 ulp of exp of the rounded
/// difference. Results below the smallest normal number of float32 are 0.
namespace attn::kernel {

/// One tile of the online softmax of its rows (Milakov and Gimelshein 2018, algorithm 3): with M_i
/// = max(max_i, max_j s_ij)
///
///   s_ij ← exp(s_ij − M_i),  factor_i ← exp(max_i − M_i),
///   sum_i ← factor_i sum_i + Σ_j s_ij,  max_i ← M_i.
///
/// Start with max −inf and sum 0; the factor is 1 as long as a row's sum is 0. Returns true if some
/// factor is not 1: earlier sums of that row must then be multiplied by its factor. If `product` is
/// not null, it becomes Σ_j s_ij log s_ij over all exponentials so far, relative to M_i as sum is;
/// start with 0. The row's entropy is log sum − product / sum, two terms that are not negative.
bool online_softmax(MatrixView<float> s, float* max, double* sum, float* factor,
                    double* product = nullptr);
bool online_softmax(MatrixView<double> s, double* max, double* sum, double* factor,
                    double* product = nullptr);

/// s_ij ← exp(s_ij) for scores that are at most 80 or −inf. Adds the sum of row i to row_sum_i, the
/// sum of column j to col_sum_j and Σ_j s_ij log s_ij of row i to row_product_i; each may be null.
void exp_tile(MatrixView<float> s, double* row_sum, double* col_sum, double* row_product = nullptr);
void exp_tile(MatrixView<double> s, double* row_sum, double* col_sum,
              double* row_product = nullptr);

/// sum_i += Σ_j tile_ij factor_j, with the factors rounded to the tile's type.
void add_row_products(MatrixView<const float> tile, const double* factor, double* sum);
void add_row_products(MatrixView<const double> tile, const double* factor, double* sum);

/// The same for two vectors of factors and of sums, in one reading of the tile.
void add_two_row_products(MatrixView<const float> tile, const double* const (&factor)[2],
                          double* const (&sum)[2]);
void add_two_row_products(MatrixView<const double> tile, const double* const (&factor)[2],
                          double* const (&sum)[2]);

/// out_ij = in_ij factor_j, sum_i += Σ_j out_ij, with the factors rounded to the tile's type. `out`
/// is `in` or does not overlap it.
void scale_columns_sum_rows(MatrixView<const float> in, const double* factor, MatrixView<float> out,
                            double* sum);
void scale_columns_sum_rows(MatrixView<const double> in, const double* factor,
                            MatrixView<double> out, double* sum);

/// tile_ij ← tile_ij (col_j · row_i + plain_i), with col_j rounded to the tile's type: the mixture
/// of two normalisations.
void mix_columns(MatrixView<float> tile, const double* col, const float* row, const float* plain);
void mix_columns(MatrixView<double> tile, const double* col, const double* row,
                 const double* plain);

/// sum_j += Σ_i tile_ij factor_i.
void add_scaled_columns(MatrixView<const float> tile, const float* factor, double* sum);
void add_scaled_columns(MatrixView<const double> tile, const double* factor, double* sum);

}  // namespace attn::kernel
