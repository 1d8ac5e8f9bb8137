#pragma once

#include "kernel/dropout.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Dropout of the weights of one problem: M_ij = 0 with probability `rate`, else 1/(1 − rate). The
/// output is o = (M∘π) v, and its gradient sees M_ij ⟨dO_i, v_j⟩ in place of ⟨dO_i, v_j⟩. Sums and
/// potentials are computed from π. Row i of the problem begins at element first + i·row_stride of
/// the stream.
struct WeightDropout {
  double rate = 0;  ///< 0: none
  kernel::DropoutStream stream = {};
  Index first = 0;
  Index row_stride = 0;

  bool any() const { return rate != 0; }

  /// tile ← M∘tile, for the tile of `range`.
  template <class T>
  void apply(const TileRange& range, MatrixView<T> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      const Index element = first + (range.row0 + i) * row_stride + range.col0;
      kernel::dropout(tile.row(i), element, tile.cols, rate, stream);
    }
  }
};

}  // namespace attn
