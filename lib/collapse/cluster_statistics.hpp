#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attnkit/collapse.hpp"
#include "tensor/view.hpp"

namespace attn::collapse {

/// Of `points` (N, d), labelled from 0 to clusters − 1, of each at least one. Sums in float64,
/// corrected by the mean of what is left, so that coinciding points give their place to a rounding.
/// Distances are found in units of their size: nothing overflows or vanishes on the way. Requires
/// width > 0. Throws Error(numerical) where a sum of points or a distance is beyond float64.

template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width);

}  // namespace attn::collapse
