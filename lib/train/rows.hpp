#pragma once

#include <algorithm>

#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn::train {

/// A matrix that owns its memory; each row is a token's vector. The memory comes from the pool of
/// the thread, so that a repeated step reuses pages.
template <class T>
class Rows {
 public:
  Rows() = default;

  /// Values unspecified. Throws std::bad_alloc.
  Rows(Index rows, Index cols) : numbers_(rows * cols), rows_(rows), cols_(cols) {}

  static Rows zeros(Index rows, Index cols) {
    Rows made(rows, cols);
    std::fill_n(made.numbers_.data(), rows * cols, T{0});
    return made;
  }

  static Rows copy_of(const Rows& from) {
    Rows made(from.rows_, from.cols_);
    std::copy_n(from.data(), made.size(), made.data());
    return made;
  }

  T* data() const { return numbers_.data(); }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Index size() const { return rows_ * cols_; }
  MatrixView<T> view() { return {numbers_.data(), rows_, cols_}; }
  MatrixView<const T> view() const { return {numbers_.data(), rows_, cols_}; }

 private:
  Buffer<T> numbers_;
  Index rows_ = 0;
  Index cols_ = 0;
};

/// sum_c += term_c, for n numbers.
template <class T>
void add_row(T* sum, const T* term, Index n) {
  for (Index c = 0; c < n; ++c) sum[c] += term[c];
}

/// to += from, element by element; of the same size, without gaps between rows.
template <class T>
void add_to(Rows<T>& to, MatrixView<const T> from) {
  add_row(to.data(), from.data, to.size());
}

}  // namespace attn::train
