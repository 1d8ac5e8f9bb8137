#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/view.hpp"

namespace attn::collapse {

/// How the C clusters of a set of points lie.
struct ClusterStatistics {
  std::vector<double> centre;    ///< (C, d), the mean of each cluster's points
  std::vector<double> distance;  ///< (C, C), between centres
  std::vector<double> spread;    ///< (C), the root of the mean squared distance to the centre

  /// The effective number of modes: the similarity-sensitive diversity of order 1 (Leinster &
  /// Cobbold 2012, Ecology 93:477, (1)) of the centres, all of the same weight, with the similarity
  /// of a gaussian of width h,
  ///
  ///   exp(−(1/C) Σ_c log((1/C) Σ_c' exp(−‖m_c − m_c'‖²/(2h²)))),
  ///
  /// from 1 (all in one place) to C (far apart, in units of h).
  double modes = 0;

  double least_distance() const;  ///< of two different clusters; NaN for C = 1
};

/// Of `points` (N, d), labelled from 0 to clusters − 1, of each at least one. Sums in float64,
/// corrected by the mean of what is left, so that coinciding points give their place to a rounding.
/// Distances are found in units of their size: nothing overflows or vanishes on the way. Requires
/// width > 0. Throws Error(numerical) where a sum of points or a distance is beyond float64.
template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width);

}  // namespace attn::collapse
