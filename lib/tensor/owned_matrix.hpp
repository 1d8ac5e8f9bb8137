#pragma once

#include <algorithm>

#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn {

/// A matrix that owns its memory, which comes from the pool of the thread.
template <class T>
class OwnedMatrix {
 public:
  OwnedMatrix() = default;

  /// Values unspecified. Throws std::bad_alloc.
  OwnedMatrix(Index rows, Index cols) : numbers_(rows * cols), rows_(rows), cols_(cols) {}

  static OwnedMatrix zeros(Index rows, Index cols) {
    OwnedMatrix made(rows, cols);
    std::fill_n(made.data(), made.size(), T{0});
    return made;
  }

  static OwnedMatrix copy_of(const OwnedMatrix& from) {
    OwnedMatrix made(from.rows_, from.cols_);
    std::copy_n(from.data(), made.size(), made.data());
    return made;
  }

  T* data() const { return numbers_.data(); }
  T* row(Index i) const { return data() + i * cols_; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index size() const { return rows_ * cols_; }
  MatrixView<T> view() { return {data(), rows_, cols_}; }
  MatrixView<const T> view() const { return read(); }
  MatrixView<const T> read() const { return {data(), rows_, cols_}; }
  MatrixView<T> first(Index rows) { return view().row_range(0, rows); }

 private:
  Buffer<T> numbers_;
  Index rows_ = 0;
  Index cols_ = 0;
};

}  // namespace attn
