#include "collapse/cluster_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "kernel/eigen_map.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::collapse {
namespace {

double largest_difference(const double* a, const double* b, Index dimension) {
  double largest = 0;
  for (Index c = 0; c < dimension; ++c) largest = std::max(largest, std::abs(a[c] - b[c]));
  return largest;
}

// A power of two near `largest`, as a unit in which squares neither overflow nor underflow. It
// changes no bit of a distance.
double unit_of(double largest) {
  if (!(largest > 0 && std::isfinite(largest))) return 1;
  return std::ldexp(1.0, std::clamp(std::ilogb(largest), -1000, 1000));
}

double squared_distance(const double* a, const double* b, Index dimension, double unit) {
  const double scale = 1 / unit;
  double sum = 0;
  for (Index c = 0; c < dimension; ++c) {
    const double part = scale * (a[c] - b[c]);
    sum += part * part;
  }
  return sum;
}

double distance_of(const double* a, const double* b, Index dimension) {
  const double unit = unit_of(largest_difference(a, b, dimension));
  return unit * std::sqrt(squared_distance(a, b, dimension, unit));
}

void require_finite(const std::vector<double>& values, const char* what) {
  if (std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) return;
  throw Error(Failure::numerical, std::string(what) + " of clusters lie beyond the format");
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

template <class T>
std::vector<double> spreads(MatrixView<const T> points, std::span<const std::int64_t> labels,
                            const std::vector<double>& centre, const PooledVector<double>& count) {
  const Index d = points.cols;
  PooledVector<double> point(static_cast<std::size_t>(d));
  const auto for_each_point = [&](const auto& visit) {
    for (Index n = 0; n < points.rows; ++n) {
      const std::int64_t label = labels[static_cast<std::size_t>(n)];
      std::copy_n(points.row(n), d, point.begin());
      visit(static_cast<std::size_t>(label), centre.data() + label * d);
    }
  };
  PooledVector<double> unit(count.size(), 0.0);
  for_each_point([&](std::size_t k, const double* from) {
    unit[k] = std::max(unit[k], largest_difference(point.data(), from, d));
  });
  std::transform(unit.begin(), unit.end(), unit.begin(), unit_of);
  std::vector<double> spread(count.size(), 0.0);
  for_each_point([&](std::size_t k, const double* from) {
    spread[k] += squared_distance(point.data(), from, d, unit[k]);
  });
  for (std::size_t k = 0; k < count.size(); ++k) {
    spread[k] = unit[k] * std::sqrt(spread[k] / count[k]);
  }
  return spread;
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
  PooledVector<double> count(static_cast<std::size_t>(clusters), 0.0);
  for (const std::int64_t label : labels) count[static_cast<std::size_t>(label)] += 1;
  const auto point = kernel::eigen_map(points);
  auto centre = kernel::eigen_map(MatrixView<double>(found.centre.data(), clusters, d));
  // Twice: the second round adds the remainder of rounding.
  for (int round = 0; round < 2; ++round) {
    auto sums = OwnedMatrix<double>::zeros(clusters, d);
    auto sum = kernel::eigen_map(sums.view());
    for (Index n = 0; n < points.rows; ++n) {
      const Index label = labels[static_cast<std::size_t>(n)];
      sum.row(label) += point.row(n).template cast<double>() - centre.row(label);
    }
    for (std::size_t k = 0; k < count.size(); ++k) {
      centre.row(static_cast<Index>(k)) += sum.row(static_cast<Index>(k)) / count[k];
    }
  }
  require_finite(found.centre, "the centres");
  found.spread = spreads(points, labels, found.centre, count);
  require_finite(found.spread, "the spreads");
  for (Index a = 0; a < clusters; ++a) {
    for (Index b = 0; b < clusters; ++b) {
      found.distance.push_back(
          distance_of(found.centre.data() + a * d, found.centre.data() + b * d, d));
    }
  }
  require_finite(found.distance, "the distances");
  found.modes = effective_modes(found.distance, count.size(), width);
  return found;
}

template ClusterStatistics cluster_statistics(MatrixView<const float>,
                                              std::span<const std::int64_t>, Index, double);
template ClusterStatistics cluster_statistics(MatrixView<const double>,
                                              std::span<const std::int64_t>, Index, double);

}  // namespace attn::collapse
