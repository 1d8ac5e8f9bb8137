#pragma once

#include <algorithm>
#include <stdexcept>

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

  bool can_share() const override { return true; }
  void share(const SlotShare& share) override {
    if (share.partition().order != Order::row_panels) {
      throw std::logic_error("weights are shared by row panels");
    }
    share.complete_lines(weights_);
  }

 private:
  MatrixView<T> weights_;
};

}  // namespace attn
