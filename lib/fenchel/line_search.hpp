#pragma once

#include <cmath>
#include <limits>

#include "tensor/shape.hpp"

namespace attn::fenchel {

/// A convex function of one number t >= 0, and its derivatives, at one t.
struct Along {
  double value = 0;
  double slope = 0;
  double curvature = 0;
};

/// If logits move by at most this relative to each other, every second derivative stays within a
/// factor e^0.5, and a whole Newton step makes the function smaller.
constexpr double safe_spread = 0.5;

/// A step t > 0 at which the slope is small and the value not larger than at 0, by Newton steps
/// kept inside a bracket. `at` is the result of evaluate for 0, with slope < 0; `noise` is the
/// rounding of values.
template <class Evaluate>
double step_length(const Along& at, double noise, const Evaluate& evaluate) {
  constexpr double enough = 0.1;    // bound on a positive slope, relative to the slope at 0
  constexpr double short_of = 0.5;  // bound on a negative slope, likewise
  constexpr int most = 60;
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  double t = 1;
  for (int n = 0; n < most; ++n) {
    const Along now = evaluate(t);
    const bool flat = now.slope <= -enough * at.slope && now.slope >= short_of * at.slope;
    if (flat && now.value <= at.value + noise) return t;
    (now.slope < 0 ? low : high) = t;
    double next = t - now.slope / now.curvature;
    // Newton's point may crawl if the curvature comes from a kink, so it stays away from the ends.
    if (std::isinf(high)) {
      if (!(next > 1.5 * t)) next = 1.5 * t;
      if (!(next < 10 * t)) next = 10 * t;
    } else {
      const double margin = 0.01 * (high - low);
      if (!(next > low + margin && next < high - margin)) {
        next = low > 0 || n > 4 ? (low + high) / 2 : high / 10;
      }
    }
    if (next == t) break;
    t = next;
  }
  return low > 0 ? low : t;
}

}  // namespace attn::fenchel
