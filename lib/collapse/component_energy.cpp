#include "collapse/component_energy.hpp"

#include <algorithm>
#include <cmath>

namespace attn::collapse {
namespace {

// The largest distance of a row from `from`.
double farthest(MatrixView<const double> rows, const double* from) {
  double farthest = 0;
  for (Index i = 0; i < rows.rows; ++i) {
    double sum = 0;
    for (Index c = 0; c < rows.cols; ++c) {
      const double difference = rows(i, c) - from[c];
      sum += difference * difference;
    }
    farthest = std::max(farthest, sum);
  }
  return std::sqrt(farthest);
}

}  // namespace

ComponentEnergy::ComponentEnergy(MatrixView<const double> centres, MatrixView<const double> points,
                                 std::span<const double> log_prior, double variance)
    : centres_(centres),
      log_prior_(log_prior),
      points_(points.rows),
      by_axis_(points.rows * points.cols),
      factor_(-0.5 / variance) {
  for (Index j = 0; j < points.rows; ++j) {
    for (Index c = 0; c < points.cols; ++c) by_axis_[c * points_ + j] = points(j, c);
  }
  if (centres.rows == 0 || points.rows == 0) return;
  constexpr double rounding = 1 + 1e-9;
  const double distance = farthest(centres, points.row(0)) + farthest(points, points.row(0));
  double prior = 0;
  for (const double log : log_prior) prior = std::max(prior, std::abs(log));
  bound_ = rounding * (std::max(1.0, -factor_) * distance * distance + prior);
}

void ComponentEnergy::fill(const TileRange& range, MatrixView<double> out) const {
  for (Index i = 0; i < range.rows; ++i) {
    const double* const centre = centres_.row(range.row0 + i);
    double* const row = out.row(i);
    std::fill_n(row, range.cols, 0.0);
    for (Index c = 0; c < centres_.cols; ++c) {
      const double* const points = by_axis_.data() + c * points_ + range.col0;
      const double at = centre[c];
      for (Index j = 0; j < range.cols; ++j) {
        const double difference = points[j] - at;
        row[j] += difference * difference;
      }
    }
    const double prior = log_prior_[static_cast<std::size_t>(range.row0 + i)];
    for (Index j = 0; j < range.cols; ++j) row[j] = prior + factor_ * row[j];
  }
}

std::int64_t ComponentEnergy::bytes(Index points, Index dimension) {
  return points * dimension * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace attn::collapse
