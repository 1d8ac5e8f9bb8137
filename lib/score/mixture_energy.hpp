#pragma once

#include <span>

#include "score/energy.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The joint log-density of component i of a mixture of Gaussians and point j, up to constants that
/// the offsets omit:
///
///   s_ij = offset_i − ‖k_j − q_i‖² / (2σ_i²)
///
/// for centres q (M, d), points k (N, d), offsets (M) and variances σ² > 0 (M), all finite. Sums
/// squares of differences, not products, in float64, and rounds once to T. The relative error of
/// the distance is d + 3 roundings of float64, also for a point and a centre close to each other
/// and far from the origin; otherwise rounding could make the likelihood fall. Keeps a copy of k; q
/// and the offsets must outlive the object.
template <class T>
class MixtureEnergy final : public Energy<T> {
 public:
  MixtureEnergy(MatrixView<const double> centres, MatrixView<const double> points,
                std::span<const double> offset, std::span<const double> variance);

  Index rows() const override { return centres_.rows; }
  Index cols() const override { return points_; }
  void fill(const TileRange& range, MatrixView<T> out) const override;
  double bound() const override { return bound_; }

 private:
  MatrixView<const double> centres_;
  std::span<const double> offset_;
  Index points_;
  Buffer<double> by_axis_;       // k transposed (d, N)
  PooledVector<double> factor_;  // −1/(2σ_i²)
  double bound_ = 0;
};

/// Bytes that a MixtureEnergy allocates.
std::int64_t mixture_energy_bytes(Index centres, Index points, Index dimension);

}  // namespace attn
