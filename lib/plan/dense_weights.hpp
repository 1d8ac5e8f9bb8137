#pragma once

#include <algorithm>

#include "pass/pass.hpp"

namespace attn::plan {

/// Writes all weights of a pass to a matrix (Lq, Lk).
template <class T>
class DenseWeights final : public Observer<T> {
 public:
  explicit DenseWeights(MatrixView<T> out) : out_(out) {}

  void start(const Partition&) override {
    for (Index i = 0; i < out_.rows; ++i) std::fill_n(out_.row(i), out_.cols, T{0});
  }
  void observe(const WeightTile<T>& tile, Index) override {
    for (Index i = 0; i < tile.range.rows; ++i) {
      std::copy_n(tile.weights.row(i), tile.range.cols,
                  out_.row(tile.range.row0 + i) + tile.range.col0);
    }
  }

 private:
  MatrixView<T> out_;
};

}  // namespace attn::plan
