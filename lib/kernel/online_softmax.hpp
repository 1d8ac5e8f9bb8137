#pragma once

#include "tensor/view.hpp"

/// Softmax taken on the way: what is normalised is complete only after the last tile, so a tile is
/// left as exponentials and what they have to be multiplied by comes later. SIMD, dispatched at run
/// time as tile.hpp is; as there scores are finite or −inf. exp is within 1.2 ulp of that of the
/// rounded difference, and 0 where it would be below the smallest normal number of float32.
namespace attn::kernel {

/// One tile of the running softmax of its rows (Milakov and Gimelshein 2018, algorithm 3): with
/// M_i = max(max_i, max_j s_ij)
///
///   s_ij ← exp(s_ij − M_i),  factor_i ← exp(max_i − M_i),
///   sum_i ← factor_i sum_i + Σ_j s_ij,  max_i ← M_i.
///
/// Begin with max −inf and sum 0; the factor is 1 as long as a row's sum is 0. True: some factor is
/// not 1, and what has been summed of that row must be multiplied by it. `product`, where it is not
/// null, becomes Σ_j s_ij log s_ij over all exponentials so far, relative to M_i as sum is; begin
/// with 0. The row's entropy is log sum − product / sum, two terms that are not negative.
bool online_softmax(MatrixView<float> s, float* max, double* sum, float* factor,
                    double* product = nullptr);
bool online_softmax(MatrixView<double> s, double* max, double* sum, double* factor,
                    double* product = nullptr);

/// s_ij ← exp(s_ij) for scores of at most 80 or −inf; adds to row_sum_i what there is in row i, to
/// col_sum_j what there is in column j, to row_product_i Σ_j s_ij log s_ij of row i; any may be
/// null.
void exp_tile(MatrixView<float> s, double* row_sum, double* col_sum, double* row_product = nullptr);
void exp_tile(MatrixView<double> s, double* row_sum, double* col_sum,
              double* row_product = nullptr);

/// sum_i += Σ_j tile_ij factor_j, the factors rounded to the tile's type.
void add_row_products(MatrixView<const float> tile, const double* factor, double* sum);
void add_row_products(MatrixView<const double> tile, const double* factor, double* sum);

/// The same for two vectors of factors and of sums at once, in one reading of the tile.
void add_two_row_products(MatrixView<const float> tile, const double* const (&factor)[2],
                          double* const (&sum)[2]);
void add_two_row_products(MatrixView<const double> tile, const double* const (&factor)[2],
                          double* const (&sum)[2]);

/// out_ij = in_ij factor_j, sum_i += Σ_j of them, the factors rounded to the tile's type. `out` is
/// `in` or apart from it.
void scale_columns_sum_rows(MatrixView<const float> in, const double* factor, MatrixView<float> out,
                            double* sum);
void scale_columns_sum_rows(MatrixView<const double> in, const double* factor,
                            MatrixView<double> out, double* sum);

/// sum_j += Σ_i tile_ij factor_i.
void add_scaled_columns(MatrixView<const float> tile, const float* factor, double* sum);
void add_scaled_columns(MatrixView<const double> tile, const double* factor, double* sum);

}  // namespace attn::kernel
