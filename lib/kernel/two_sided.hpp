#pragma once

#include "tensor/view.hpp"

/// Products of a kernel matrix with factors from both sides, as Sinkhorn's iterations take them: a
/// few rows at a time have their products summed, and then, while they are in cache, give their
/// part of the columns. SIMD, dispatched at run time as tile.hpp is. What a row or column gets has
/// the same bits however the rows are divided among calls.
namespace attn::kernel {

/// Rows that two_sided_products takes.
constexpr Index two_sided_rows = 4;

/// Row sums go to float64 after so many columns at most, always after the last of them: rows may
/// be cut there, or not, to the same bits.
constexpr Index two_sided_cols = 256;

/// Elements of a line of the cache.
template <class T>
constexpr Index packed_line() {
  return 64 / sizeof(T);
}

/// sum_i += Σ_j tile_ij factor_j, of up to 4096 columns.
void row_products(MatrixView<const float> tile, const float* factor, double* sum);
void row_products(MatrixView<const double> tile, const double* factor, double* sum);

/// sum_j += tile_ij factor_i, row after row: of a few dozen rows before the sums go to float64.
void column_products(MatrixView<const float> tile, const float* factor, float* sum);
void column_products(MatrixView<const double> tile, const double* factor, double* sum);

/// How two_sided_rows rows of `cols` columns lie in memory so that to work through them is to read
/// it from one end to the other: a line of the cache of each row in turn, what is left of each at
/// the end. `packed` has room for two_sided_rows · cols elements.
void pack_rows(MatrixView<const float> rows, float* packed);
void pack_rows(MatrixView<const double> rows, double* packed);
void unpack_rows(const float* packed, MatrixView<float> rows);
void unpack_rows(const double* packed, MatrixView<double> rows);

/// column_products of the packed rows `now` and row_products of the packed rows `next`, of `cols`
/// columns each, at once. Either may be null and is left out with what belongs to it.
template <class T>
struct TwoSided {
  const T* now = nullptr;
  const T* row_factor = nullptr;
  T* col_sum = nullptr;
  const T* next = nullptr;
  const T* col_factor = nullptr;
  double* row_sum = nullptr;
  Index cols = 0;
  bool from_memory = false;  ///< `next` is not in any cache: what comes behind it is asked for
};
void two_sided_products(const TwoSided<float>& products);
void two_sided_products(const TwoSided<double>& products);

}  // namespace attn::kernel
