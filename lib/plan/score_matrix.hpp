#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/plan_array.hpp"
#include "score/matrix_source.hpp"

namespace attn::plan {

/// Scores in memory, or the negatives of a cost in memory. An infinite value forbids the pair.
template <class T>
class ScoreMatrix final : public MatrixSource<T> {
 public:
  /// `values` (rows, cols). Throws Error(input) that names the first number that is NaN or an
  /// infinity of the wrong sign.
  ScoreMatrix(const std::string& name, const T* values, Index rows, Index cols, bool of_cost)
      : values_(values), cols_(cols), of_cost_(of_cost) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const T wrong = of_cost ? -infinity : infinity;
    require_numbers(name, values, {rows, cols},
                    of_cost ? "finite numbers or inf" : "finite numbers or -inf",
                    [wrong](T value) { return !std::isnan(value) && value != wrong; });
    for (Index n = 0; n < rows * cols; ++n) {
      if (std::isfinite(values[n])) bound_ = std::max(bound_, std::abs(double{values[n]}));
    }
  }

  void read(const TileRange& range, MatrixView<T> out) const override {
    for (Index i = 0; i < range.rows; ++i) {
      const T* const from = values_ + (range.row0 + i) * cols_ + range.col0;
      if (of_cost_) {
        std::transform(from, from + range.cols, out.row(i), [](T value) { return -value; });
      } else {
        std::copy_n(from, range.cols, out.row(i));
      }
    }
  }
  double bound() const override { return bound_; }

 private:
  const T* values_;
  Index cols_;
  bool of_cost_;
  double bound_ = 0;
};

}  // namespace attn::plan
