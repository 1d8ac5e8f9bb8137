#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/view.hpp"

namespace attn::collapse {

/// Positions and extent of the C clusters of a set of points.
struct ClusterStatistics {
  std::vector<double> centre;    ///< (C, d), the mean of each cluster's points
  std::vector<double> distance;  ///< (C, C), between centres
  std::vector<double> spread;    ///< (C), the root of the mean squared distance to the centre

  /// The effective number of modes: the similarity-sensitive diversity of order 1 (Leinster &
  /// Cobbold 2012, Ecology 93:477, (1)) of the centres, all with the same weight and with the
  /// similarity of a gaussian of width h,
  ///
  ///   exp(−(1/C) Σ_c log((1/C) Σ_c' exp(−‖m_c − m_c'‖²/(2h²)))),
  ///
  /// from 1 (all in one place) to C (far apart, in units of h).
  double modes = 0;

  double least_distance() const;  ///< between two different clusters; NaN for C = 1
};

/// For `points` (N, d), labelled from 0 to clusters − 1, each label at least once. Sums are in
/// float64 and corrected by the mean of the remainders, so that the centre of coinciding points is
/// their place up to one rounding. Distances are computed in units of their size: no intermediate
/// result overflows or vanishes. Requires width > 0. Throws Error(numerical) if a sum of points or
/// a distance is beyond float64.
template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width);

}  // namespace attn::collapse
