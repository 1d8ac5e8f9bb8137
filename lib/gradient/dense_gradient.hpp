#pragma once

#include <algorithm>

#include "gradient/gradient_sink.hpp"
#include "kernel/tile.hpp"

namespace attn {

/// Writes the derivative of each pair, times a factor, to the caller's (Lq, Lk) matrix. Pairs that
/// `add` does not receive get 0.
template <class T>
class DenseGradient final : public GradientSink<T> {
 public:
  DenseGradient(MatrixView<T> to, double factor) : to_(to), factor_(factor) { set_to_zero(to); }

  void start(Index /*lanes*/) override {}
  void merge(Index /*lane*/, SumPart /*part*/) override {}

  void add(const TileRange& range, MatrixView<const T> gradient, Index /*lane*/) override {
    for (Index i = 0; i < range.rows; ++i) {
      T* const to = to_.row(range.row0 + i) + range.col0;
      std::copy_n(gradient.row(i), range.cols, to);
      kernel::scale_row(to, range.cols, factor_);
    }
  }

 private:
  MatrixView<T> to_;
  double factor_;
};

}  // namespace attn
