#pragma once

#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn::fenchel {

/// A matrix that owns its memory; elements are unspecified until they are written.
template <class T>
struct Rows {
  Buffer<T> values;
  Index count = 0;
  Index width = 0;

  Rows() = default;
  Rows(Index rows, Index cols) : values(rows * cols), count(rows), width(cols) {}

  T* row(Index i) const { return values.data() + i * width; }
  MatrixView<T> view() const { return {values.data(), count, width}; }
  /// The first rows only.
  MatrixView<T> first(Index rows) const { return {values.data(), rows, width}; }
  MatrixView<const T> read() const { return view(); }
};

}  // namespace attn::fenchel
