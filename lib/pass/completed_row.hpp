#pragma once

#include <cmath>

#include "pass/sink.hpp"
#include "tensor/infinity.hpp"

namespace attn {

/// A row potential, and the factor that makes weights of the exponentials.
struct CompletedRow {
  double f = minus_infinity;
  double factor = 0;
};

/// A row whose exponentials exp((s_ij − g_j) − shift) sum to `sum`, 0 if nothing is allowed: f =
/// shift + log sum − log_marginal, joined by the sink. The row's weights sum to `coefficient` times
/// the marginal, which may be exp(−∞).
inline CompletedRow completed_row(double shift, double sum, double sink, double log_marginal = 0,
                                  double coefficient = 1) {
  if (sum == 0 || log_marginal == minus_infinity) return {};
  const double f = shift + std::log(sum) - log_marginal;
  if (sink == no_sink) return {f, coefficient * std::exp(log_marginal) / sum};
  const double joined = with_sink(f, sink);
  return {joined, coefficient * std::exp(shift - joined)};
}

}  // namespace attn
