#include "collapse/cluster_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::collapse {
namespace {

double squared_distance(const double* a, const double* b, Index dimension) {
  double sum = 0;
  for (Index c = 0; c < dimension; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

double effective_modes(const std::vector<double>& distance, std::size_t clusters, double width) {
  const auto count = static_cast<double>(clusters);
  double log_modes = 0;
  for (std::size_t a = 0; a < clusters; ++a) {
    double alike = 0;
    for (std::size_t b = 0; b < clusters; ++b) {
      const double units = distance[a * clusters + b] / width;
      alike += std::exp(-0.5 * units * units);
    }
    log_modes -= std::log(alike / count) / count;
  }
  return std::exp(log_modes);
}

}  // namespace

double ClusterStatistics::least_distance() const {
  const std::size_t clusters = spread.size();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < clusters; ++a) {
    for (std::size_t b = 0; b < a; ++b) least = std::min(least, distance[a * clusters + b]);
  }
  return clusters > 1 ? least : std::numeric_limits<double>::quiet_NaN();
}

template <class T>
ClusterStatistics cluster_statistics(MatrixView<const T> points,
                                     std::span<const std::int64_t> labels, Index clusters,
                                     double width) {
  const Index d = points.cols;
  ClusterStatistics found;
  found.centre.assign(static_cast<std::size_t>(clusters * d), 0.0);
  std::vector<double> count(static_cast<std::size_t>(clusters), 0.0);
  for (const std::int64_t label : labels) count[static_cast<std::size_t>(label)] += 1;
  // Twice: the second time what rounding has left over.
  for (int round = 0; round < 2; ++round) {
    std::vector<double> sum(found.centre.size(), 0.0);
    for (Index n = 0; n < points.rows; ++n) {
      const Index at = labels[static_cast<std::size_t>(n)] * d;
      for (Index c = 0; c < d; ++c) {
        const auto k = static_cast<std::size_t>(at + c);
        sum[k] += static_cast<double>(points(n, c)) - found.centre[k];
      }
    }
    for (std::size_t k = 0; k < sum.size(); ++k) {
      found.centre[k] += sum[k] / count[k / static_cast<std::size_t>(d)];
    }
  }
  found.spread.assign(count.size(), 0.0);
  std::vector<double> point(static_cast<std::size_t>(d));
  for (Index n = 0; n < points.rows; ++n) {
    const std::int64_t label = labels[static_cast<std::size_t>(n)];
    std::copy_n(points.row(n), d, point.begin());
    found.spread[static_cast<std::size_t>(label)] +=
        squared_distance(point.data(), found.centre.data() + label * d, d);
  }
  for (std::size_t k = 0; k < count.size(); ++k) {
    found.spread[k] = std::sqrt(found.spread[k] / count[k]);
  }
  for (Index a = 0; a < clusters; ++a) {
    for (Index b = 0; b < clusters; ++b) {
      found.distance.push_back(
          std::sqrt(squared_distance(found.centre.data() + a * d, found.centre.data() + b * d, d)));
    }
  }
  found.modes = effective_modes(found.distance, count.size(), width);
  return found;
}

template ClusterStatistics cluster_statistics(MatrixView<const float>,
                                              std::span<const std::int64_t>, Index, double);
template ClusterStatistics cluster_statistics(MatrixView<const double>,
                                              std::span<const std::int64_t>, Index, double);

}  // namespace attn::collapse
