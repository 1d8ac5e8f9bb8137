#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "fenchel/dual.hpp"
#include "tensor/error_fall.hpp"

namespace attn::fenchel {

/// Whether one query is done: the rule of DualOptions.
class DualStopping {
 public:
  enum class Verdict { go_on, done, stuck };

  /// The state of a query.
  struct Place {
    double gradient_norm;
    double primal;
    double lambda_norm;
    double rounding;  ///< how accurately the gradient is known
  };

  /// The norm below which a gradient is small enough.
  static double needed(const DualOptions& options, double alpha, const Place& at) {
    if (options.gradient_tolerance) return *options.gradient_tolerance;
    const double of_gap = std::sqrt(2 * options.tolerance * (1 + std::abs(at.primal)) / alpha);
    // λ = 0 if z is 0: only rounding is left.
    const double of_lambda = 10 * options.tolerance / alpha * std::min(1.0, at.lambda_norm);
    return std::min(of_gap, std::max(of_lambda, at.rounding));
  }

  /// `whole_step`: a whole Newton step has led here; such steps make the gradient smaller until
  /// rounding prevents it.
  Verdict look(const DualOptions& options, double alpha, const Place& at, bool whole_step) {
    rate_ = at.gradient_norm / before_;
    before_ = at.gradient_norm;
    if (at.gradient_norm <= needed(options, alpha, at)) return Verdict::done;
    const bool progress = at.gradient_norm < 0.5 * least_;
    least_ = std::min(least_, at.gradient_norm);
    without_progress_ = progress || !whole_step ? 0 : without_progress_ + 1;
    constexpr int patience = 3;
    if (without_progress_ < patience) return Verdict::go_on;
    const double gap = alpha / 2 * at.gradient_norm * at.gradient_norm;
    const bool gap_met = gap <= options.tolerance * (1 + std::abs(at.primal));
    return gap_met && !options.gradient_tolerance ? Verdict::done : Verdict::stuck;
  }

  /// After look(), for a query that did not converge.
  Convergence convergence(double needed_norm, Index iterations) const {
    return convergence_at(rate_, before_, needed_norm, iterations);
  }

 private:
  double before_ = std::numeric_limits<double>::quiet_NaN();  // the norm of the latest gradient
  double rate_ = std::numeric_limits<double>::quiet_NaN();
  double least_ = std::numeric_limits<double>::infinity();
  int without_progress_ = 0;
};

}  // namespace attn::fenchel
