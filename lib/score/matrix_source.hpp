#pragma once

#include <algorithm>
#include <limits>

#include "tensor/view.hpp"

namespace attn {

/// A matrix of the size of the scores that is read tile by tile: a mask, a bias, ready-made scores.
/// The matrix may lie in memory or in a file, or be computed on demand; it is never needed as a
/// whole.
template <class T>
class MatrixSource {
 public:
  virtual ~MatrixSource() = default;

  /// Copies the elements of `range` to `out` (range.rows × range.cols). Thread-safe. Values are
  /// finite or -inf; a source that finds any other value throws Error(input) naming itself and the
  /// index.
  virtual void read(const TileRange& range, MatrixView<T> out) const = 0;

  /// No finite element is larger in magnitude; +inf if unknown.
  virtual double bound() const { return std::numeric_limits<double>::infinity(); }

  /// Whether all rows are the same, so that reading one is enough.
  virtual bool rows_alike() const { return false; }

  /// Whether all columns are the same, so that reading one is enough.
  virtual bool cols_alike() const { return false; }
};

/// A matrix in memory, broadcast by strides: element (i, j) is data[i*row_stride + j*col_stride],
/// either stride may be 0. Does not own the memory.
template <class T>
class BroadcastMatrix final : public MatrixSource<T> {
 public:
  BroadcastMatrix(const T* data, Index row_stride, Index col_stride,
                  double bound = std::numeric_limits<double>::infinity())
      : data_(data), row_stride_(row_stride), col_stride_(col_stride), bound_(bound) {}

  void read(const TileRange& range, MatrixView<T> out) const override {
    for (Index i = 0; i < range.rows; ++i) {
      const T* from = data_ + (range.row0 + i) * row_stride_ + range.col0 * col_stride_;
      T* to = out.row(i);
      if (col_stride_ == 1) {
        std::copy_n(from, range.cols, to);
      } else {
        for (Index j = 0; j < range.cols; ++j) to[j] = from[j * col_stride_];
      }
    }
  }

  /// For a matrix whose numbers are looked at after it was made.
  void set_bound(double bound) { bound_ = bound; }

  double bound() const override { return bound_; }
  bool rows_alike() const override { return row_stride_ == 0; }
  bool cols_alike() const override { return col_stride_ == 0; }

 private:
  const T* data_;
  Index row_stride_;
  Index col_stride_;
  double bound_;
};

}  // namespace attn
