#pragma once

#include "sinkhorn/sinkhorn_state.hpp"

namespace attn {

/// The relaxation after an iteration with this error: ω until the error stops falling, then 1.
inline double next_relaxation(double error, RelaxationState& state) {
  // Over-relaxation ends after this many iterations without a smaller error, or at an error this
  // many times the smallest.
  constexpr Index most_without_gain = 50;
  constexpr double most_growth = 100;
  if (state.wanted == 1) return 1;
  if (error < state.least) {
    state.least = error;
    state.since = 0;
  } else if (++state.since > most_without_gain || !(error <= state.least * most_growth)) {
    state.wanted = 1;
  }
  return state.wanted;
}

}  // namespace attn
