#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "attnkit/transport.hpp"
#include "energy/energy_description.hpp"
#include "gradient/gradient.hpp"
#include "sinkhorn/conjugate_gradients.hpp"

namespace attn {

/// Points x (Lq, d) and y (Lk, d) from which the scores of transport are made, and where
/// derivatives by them go.
template <class T>
struct TransportPoints {
  const EnergyDescription* energy = nullptr;  ///< null: the scores are not made from points
  /// x and y as q and k. `by` is the derivative through an energy with this scale.
  EnergyArguments<T> from = {};
  EnergyGradients<T> by = {};

  bool wanted() const { return energy != nullptr && by.any(); }
};

/// Where derivatives go that are made from the derivatives by the scores.
template <class T>
struct ScoreDerivatives {
  TransportPoints<T> points = {};
  GradientSink<T>* pairs = nullptr;  ///< takes the derivatives by the scores; null: not requested

  bool wanted() const { return points.wanted() || pairs != nullptr; }

  /// If any derivatives are requested, calls differentiate(targets), which shows the derivatives by
  /// the scores to the sinks of `targets`.
  template <class Differentiate>
  void write(const Differentiate& differentiate) const {
    if (!wanted()) return;
    GradientTargets<T> targets;
    std::unique_ptr<GradientSink<T>> by_points;
    if (points.wanted()) {
      by_points = points.energy->differentiate(points.from, points.by);
      targets.energies.push_back(by_points.get());
    }
    if (pairs != nullptr) targets.scores.push_back(pairs);
    differentiate(targets);
  }
};

/// Copies the results of one problem to where they go; an empty span is not requested.
inline void write_result(std::span<double> to, std::span<const double> values) {
  if (!to.empty()) std::copy(values.begin(), values.end(), to.begin());
}

/// The figures of gradients of an infeasible problem.
inline SolutionGradientFigures infeasible_figures() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return {.status = SolveStatus::infeasible, .plan_error = nan, .residual = nan};
}

/// The figures of gradients at a plan whose solution_error is `plan_error`.
inline SolutionGradientFigures gradient_figures(const ImplicitOutcome& solved, double plan_error) {
  const SolveStatus status = plan_error > 0 ? SolveStatus::not_converged : solved.status;
  const double error = plan_error > 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
  return {status, plan_error, error, solved.iterations, solved.residual};
}

}  // namespace attn
