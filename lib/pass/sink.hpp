#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/infinity.hpp"

/// An attention sink: a logit that joins the sum of each row of exponentials and has no value, so
/// that the weights of a row add up to less than 1.
namespace attn {

/// The logit of no sink.
inline constexpr double no_sink = minus_infinity;

/// log(exp f + exp sink): the row potential with the sink. A row with nothing allowed, f = −inf,
/// stays as it is.
inline double with_sink(double f, double sink) {
  if (f == minus_infinity || sink == no_sink) return f;
  const double larger = std::max(f, sink);
  return larger + std::log1p(std::exp(std::min(f, sink) - larger));
}

/// exp(sink − f): the weight of the sink in a row whose potential f contains it.
inline double sink_weight(double sink, double f) {
  return sink == no_sink || f == minus_infinity ? 0 : std::exp(sink - f);
}

}  // namespace attn
