#pragma once

#include "tensor/view.hpp"

/// Products of a kernel matrix with factors from both sides, as in Sinkhorn's iterations. A few
/// rows at a time get their row sums and then, while in cache, are added to the column sums. SIMD,
/// dispatched at run time as in tile.hpp. The bits of each row and column sum do not depend on how
/// the rows are divided among calls.
namespace attn::kernel {

/// Rows that two_sided_products works on.
constexpr Index two_sided_rows = 4;

/// Row sums move to float64 after every this many columns, and after the last column: cutting rows
/// at these places changes no bits.
constexpr Index two_sided_cols = 256;

/// Elements in a cache line.
template <class T>
constexpr Index packed_line() {
  return 64 / sizeof(T);
}

/// sum_i += Σ_j tile_ij factor_j, over at most 4096 columns.
void row_products(MatrixView<const float> tile, const float* factor, double* sum);
void row_products(MatrixView<const double> tile, const double* factor, double* sum);

/// sum_j += tile_ij factor_i, row by row, for a few dozen rows before the sums move to float64.
void column_products(MatrixView<const float> tile, const float* factor, float* sum);
void column_products(MatrixView<const double> tile, const double* factor, double* sum);

/// Packs two_sided_rows rows of `cols` columns so that they are read sequentially: one cache line
/// of each row in turn, then the remainder of each row. `packed` has room for two_sided_rows · cols
/// elements. unpack_rows is the inverse.
void pack_rows(MatrixView<const float> rows, float* packed);
void pack_rows(MatrixView<const double> rows, double* packed);
void unpack_rows(const float* packed, MatrixView<float> rows);
void unpack_rows(const double* packed, MatrixView<double> rows);

/// column_products of the packed rows `now` and, at the same time, row_products of the packed rows
/// `next`, each of `cols` columns. A null pointer omits that part.
template <class T>
struct TwoSided {
  const T* now = nullptr;
  const T* row_factor = nullptr;
  T* col_sum = nullptr;
  const T* next = nullptr;
  const T* col_factor = nullptr;
  double* row_sum = nullptr;
  Index cols = 0;
  bool from_memory = false;  ///< `next` is not in any cache: the data behind it is prefetched
};
void two_sided_products(const TwoSided<float>& products);
void two_sided_products(const TwoSided<double>& products);

}  // namespace attn::kernel
