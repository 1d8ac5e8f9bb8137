#include "score/mixture_energy.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace attn {
namespace {

// Points whose distances are summed at a time.
constexpr Index points_at_once = 64;

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

template <class T>
MixtureEnergy<T>::MixtureEnergy(MatrixView<const double> centres, MatrixView<const double> points,
                                std::span<const double> offset, std::span<const double> variance)
    : centres_(centres),
      offset_(offset),
      points_(points.rows),
      by_axis_(points.rows * points.cols) {
  for (Index j = 0; j < points.rows; ++j) {
    for (Index c = 0; c < points.cols; ++c) by_axis_[c * points_ + j] = points(j, c);
  }
  double largest_factor = 1;
  double largest_offset = 0;
  for (std::size_t i = 0; i < variance.size(); ++i) {
    factor_.push_back(-0.5 / variance[i]);
    largest_factor = std::max(largest_factor, -factor_.back());
    largest_offset = std::max(largest_offset, std::abs(offset[i]));
  }
  if (centres.rows == 0 || points.rows == 0) return;
  constexpr double rounding = 1 + 1e-9;
  const double distance = farthest(centres, points.row(0)) + farthest(points, points.row(0));
  bound_ = rounding * (largest_factor * distance * distance + largest_offset);
}

template <class T>
void MixtureEnergy<T>::fill(const TileRange& range, MatrixView<T> out) const {
  std::array<double, points_at_once> sums;
  for (Index i = 0; i < range.rows; ++i) {
    const double* const centre = centres_.row(range.row0 + i);
    const double offset = offset_[static_cast<std::size_t>(range.row0 + i)];
    const double factor = factor_[static_cast<std::size_t>(range.row0 + i)];
    for (Index first = 0; first < range.cols; first += points_at_once) {
      const Index count = std::min(points_at_once, range.cols - first);
      std::fill_n(sums.begin(), count, 0.0);
      for (Index c = 0; c < centres_.cols; ++c) {
        const double* const points = by_axis_.data() + c * points_ + range.col0 + first;
        const double at = centre[c];
        for (Index j = 0; j < count; ++j) {
          const double difference = points[j] - at;
          sums[static_cast<std::size_t>(j)] += difference * difference;
        }
      }
      T* const row = out.row(i) + first;
      for (Index j = 0; j < count; ++j) {
        row[j] = static_cast<T>(offset + factor * sums[static_cast<std::size_t>(j)]);
      }
    }
  }
}

std::int64_t mixture_energy_bytes(Index centres, Index points, Index dimension) {
  return (points * dimension + centres) * static_cast<std::int64_t>(sizeof(double));
}

template class MixtureEnergy<float>;
template class MixtureEnergy<double>;

}  // namespace attn
