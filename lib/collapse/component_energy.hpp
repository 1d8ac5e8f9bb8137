#pragma once

#include <span>
#include <vector>

#include "score/energy.hpp"
#include "tensor/buffer.hpp"

namespace attn::collapse {

/// The joint log-density of component i of a mixture and point j, up to a common constant:
///
///   s_ij = log β_i − ‖k_j − q_i‖² / (2σ²)
///
/// for centres q (M, d), points k (N, d) and log-priors (M), all finite. Sums squares of
/// differences, not products: a relative error of d + 3 roundings of the distance, however close to
/// each other and far from the origin a point and its centre are. A likelihood that must not fall
/// needs that. Keeps a copy of k; q and the priors must outlive it.
class ComponentEnergy final : public Energy<double> {
 public:
  ComponentEnergy(MatrixView<const double> centres, MatrixView<const double> points,
                  std::span<const double> log_prior, double variance);

  Index rows() const override { return centres_.rows; }
  Index cols() const override { return points_; }
  void fill(const TileRange& range, MatrixView<double> out) const override;
  double bound() const override { return bound_; }

  static std::int64_t bytes(Index points, Index dimension);

 private:
  MatrixView<const double> centres_;
  std::span<const double> log_prior_;
  Index points_;
  Buffer<double> by_axis_;  // k transposed (d, N)
  double factor_;
  double bound_ = 0;
};

}  // namespace attn::collapse
