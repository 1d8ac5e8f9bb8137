#pragma once

#include <algorithm>

#include "pass/pass.hpp"

namespace attn {

/// Writes all weights (Lq, Lk) to the caller's memory, which holds zeros.
template <class T>
class DenseWeights final : public Observer<T> {
 public:
  explicit DenseWeights(MatrixView<T> weights) : weights_(weights) {}

  void observe(const WeightTile<T>& tile, Index slot) override {
    static_cast<void>(slot);
    for (Index i = 0; i < tile.range.rows; ++i) {
      std::copy_n(tile.weights.row(i), tile.range.cols,
                  weights_.row(tile.range.row0 + i) + tile.range.col0);
    }
  }

 private:
  MatrixView<T> weights_;
};

}  // namespace attn
