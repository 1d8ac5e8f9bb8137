#pragma once

#include <span>

#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Σ_j w_ij ‖k_j − q_i‖² of each query, for the weights w that a pass by rows shows, the points k
/// and the centres q. Sums squares of differences, so that no digits cancel.
class SquaredDistances final : public Observer<double> {
 public:
  SquaredDistances(MatrixView<const double> points, MatrixView<const double> centres)
      : points_(points), centres_(centres), sums_(static_cast<std::size_t>(centres.rows), 0.0) {}

  void observe(const WeightTile<double>& tile, Index) override {
    const TileRange& range = tile.range;
    for (Index i = 0; i < range.rows; ++i) {
      const double* const centre = centres_.row(range.row0 + i);
      double sum = 0;
      for (Index j = 0; j < range.cols; ++j) {
        const double* const point = points_.row(range.col0 + j);
        double distance = 0;
        for (Index c = 0; c < points_.cols; ++c) {
          distance += (point[c] - centre[c]) * (point[c] - centre[c]);
        }
        sum += tile.weights(i, j) * distance;
      }
      sums_[static_cast<std::size_t>(range.row0 + i)] += sum;
    }
  }
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override { share.complete_lines(std::span<double>(sums_)); }

  const PooledVector<double>& sums() const { return sums_; }

 private:
  MatrixView<const double> points_;
  MatrixView<const double> centres_;
  PooledVector<double> sums_;
};

}  // namespace attn
