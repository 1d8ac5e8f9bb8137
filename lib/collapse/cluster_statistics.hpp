#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attnkit/collapse.hpp"
#include "tensor/view.hpp"

namespace attn::collapse {

/// The statistics of `points` (N, d), labelled from 0 to clusters − 1, each label at least once. A
/// centre is computed in float64, and corrected by the mean of the points' differences from it: the
/// centre of coinciding points is their position up to one rounding. Distances are computed in
/// units of the largest difference, so that no square overflows or underflows. Requires width > 0.
/// Throws Error(numerical) if a sum of points or a distance is beyond float64.
template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width);

}  // namespace attn::collapse
