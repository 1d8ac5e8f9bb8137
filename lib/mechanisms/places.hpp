#pragma once

#include "tensor/view.hpp"

namespace attn::mechanisms {

/// Places of a sequence that a thread takes at a time. Partial sums over such parts are added in
/// order, so that no bit depends on the threads.
inline constexpr Index places_at_once = 1024;

/// The number of parts of `places` places.
inline Index place_parts(Index places) { return (places + places_at_once - 1) / places_at_once; }

/// Columns [first, first + count) of a matrix.
template <class T>
MatrixView<T> columns(MatrixView<T> matrix, Index first, Index count) {
  return {matrix.data + first, matrix.rows, count, matrix.row_stride};
}

}  // namespace attn::mechanisms
