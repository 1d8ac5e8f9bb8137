#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "attnkit/stopping.hpp"

namespace attn {

/// The convergence of an iteration whose error is `last` after `iterations`, and falls by `rate`
/// each time.
inline Convergence convergence_at(double rate, double last, double tolerance, Index iterations) {
  constexpr double most = 1e12;
  if (std::isnan(rate)) return {};
  // Reached although the error is within the tolerance: rounding limits the result.
  if (!(rate < 1) || !(last > tolerance)) return {1, std::nullopt};
  if (rate == 0) return {0, iterations + 1};
  const double more = std::ceil(std::log(tolerance / last) / std::log(rate));
  if (!(more < most)) return {rate, std::nullopt};
  return {rate, iterations + static_cast<Index>(std::max(more, 1.0))};
}

/// The errors of the last iterations, from which the rate is measured: at most 32, and at most the
/// later half of all, as the first iterations are faster or slower than the later ones. Allocates
/// no memory.
class ErrorFall {
 public:
  void add(double error) {
    errors_[at(count_)] = error;
    ++count_;
  }

  void restart() { count_ = 0; }

  Convergence toward(double tolerance, Index iterations) const {
    const Index steps = std::min(most_steps, count_ / 2);
    if (steps < 1) return {};
    const double last = errors_[at(count_ - 1)];
    const double first = errors_[at(count_ - 1 - steps)];
    Index falls = 0;
    for (Index n = count_ - steps; n < count_; ++n) {
      falls += errors_[at(n)] < errors_[at(n - 1)] ? 1 : 0;
    }
    // Rounding moves an error up and down; over-relaxation does so, too, but lowers it on the
    // whole.
    const bool lowered = last < first / 2 || 4 * falls >= 3 * steps;
    const double rate =
        lowered && last < first ? std::pow(last / first, 1 / static_cast<double>(steps)) : 1;
    return convergence_at(rate, last, tolerance, iterations);
  }

 private:
  static constexpr Index most_steps = 32;
  static std::size_t at(Index n) { return static_cast<std::size_t>(n % (most_steps + 1)); }

  std::array<double, most_steps + 1> errors_{};
  Index count_ = 0;
};

/// The slower of two; none means that nothing was left to converge.
inline std::optional<Convergence> slower(const std::optional<Convergence>& a,
                                         const std::optional<Convergence>& b) {
  if (!a || !b) return a ? a : b;
  Convergence both;
  both.rate = std::fmax(a->rate, b->rate);
  if (a->predicted_iterations && b->predicted_iterations) {
    both.predicted_iterations = std::max(*a->predicted_iterations, *b->predicted_iterations);
  }
  return both;
}

}  // namespace attn
