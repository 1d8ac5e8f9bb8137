#pragma once

#include <vector>

#include "pass/pass.hpp"

namespace attn::testing {

/// Keeps all weights. Only tests need this; no tool does it.
template <class T>
class KeepWeights final : public Observer<T> {
 public:
  void start(const Partition& partition) override {
    cols_ = partition.cols;
    values.assign(static_cast<std::size_t>(partition.rows * partition.cols), T{0});
  }
  void observe(const WeightTile<T>& tile, Index) override {
    for (Index i = 0; i < tile.range.rows; ++i) {
      for (Index j = 0; j < tile.range.cols; ++j) {
        const Index at = (tile.range.row0 + i) * cols_ + tile.range.col0 + j;
        values[static_cast<std::size_t>(at)] = tile.weights(i, j);
      }
    }
  }
  std::vector<T> values;

 private:
  Index cols_ = 0;
};

}  // namespace attn::testing
