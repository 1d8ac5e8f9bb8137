#pragma once

#include <cstdint>
#include <memory>

#include "gradient/bias_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "kernel/tile.hpp"
#include "plan/transport_points.hpp"

namespace attn {

/// Where derivatives go that are made from the derivatives by the scores −C/unit. Views without
/// data are not requested.
template <class T>
struct SolutionTargets {
  MatrixView<T> matrix = {};  ///< (m, n)
  bool of_cost = true;        ///< whether `matrix` is by the cost, else by the scores
  TransportPoints<T> points = {};
  double unit = 1;

  bool wanted() const {
    return matrix.data != nullptr || points.by_x.data != nullptr || points.by_y.data != nullptr;
  }
};

/// Writes the requested derivatives: calls differentiate(targets), which shows the derivatives by
/// the scores to the sinks of `targets`.
template <class T, class Differentiate>
void write_by_scores(const SolutionTargets<T>& to, const Differentiate& differentiate) {
  if (!to.wanted()) return;
  GradientTargets<T> targets;
  const auto points = make_point_gradient(to.points, to.unit);
  if (points) targets.energies.push_back(points.get());
  std::unique_ptr<GradientSink<T>> matrix;
  if (to.matrix.data != nullptr) {
    matrix = make_bias_gradient<T>(to.matrix.rows, to.matrix.cols, to.matrix);
    targets.scores.push_back(matrix.get());
  }
  differentiate(targets);
  if (matrix == nullptr || !to.of_cost) return;
  for (Index i = 0; i < to.matrix.rows; ++i) {
    kernel::scale_row(to.matrix.row(i), to.matrix.cols, -1 / to.unit);
  }
}

}  // namespace attn
