#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attnkit/collapse.hpp"
#include "tensor/view.hpp"

namespace attn::collapse {

/// For `points` (N, d), labelled from 0 to clusters − 1, each label at least once. Sums are in
/// float64 and corrected by the mean of the remainders, so that the centre of coinciding points is
/// their position up to one rounding. Distances are computed in units of their size: no
/// intermediate result overflows or underflows. Requires width > 0. Throws Error(numerical) if a
/// sum of points or a distance is beyond float64.

template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width);

}  // namespace attn::collapse
