#pragma once

#include <algorithm>
#include <type_traits>

#include "tensor/shape.hpp"

namespace attn {

/// A row-major matrix that the view does not own; element (i, j) is data[i*row_stride + j]. Copies
/// are cheap and refer to the same numbers.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index row_stride = 0;

  MatrixView() = default;
  MatrixView(T* first, Index row_count, Index col_count)
      : MatrixView(first, row_count, col_count, col_count) {}
  MatrixView(T* first, Index row_count, Index col_count, Index stride)
      : data(first), rows(row_count), cols(col_count), row_stride(stride) {}

  T* row(Index i) const { return data + i * row_stride; }
  T& operator()(Index i, Index j) const { return data[i * row_stride + j]; }

  /// Rows [first, first + count) of this view.
  MatrixView row_range(Index first, Index count) const {
    return MatrixView(row(first), count, cols, row_stride);
  }

  operator MatrixView<const T>() const requires(!std::is_const_v<T>) {
    return MatrixView<const T>(data, rows, cols, row_stride);
  }
};

/// Writes zeros; does nothing if the view has no data.
template <class T>
void set_to_zero(const MatrixView<T>& matrix) {
  if (matrix.data == nullptr) return;
  for (Index i = 0; i < matrix.rows; ++i) std::fill_n(matrix.row(i), matrix.cols, T{0});
}

/// A rectangle of the score matrix: rows [row0, row0+rows) by columns [col0, col0+cols).
struct TileRange {
  Index row0 = 0;
  Index rows = 0;
  Index col0 = 0;
  Index cols = 0;
};

}  // namespace attn
