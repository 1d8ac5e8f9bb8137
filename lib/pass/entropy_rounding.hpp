#pragma once

#include <limits>
#include <span>

namespace attn {

/// Entropies −Σ_j π_ij log π_ij of weights in T: one of 1 may be rounded up, so that they fall
/// below 0 by a few roundings, which become 0. A larger excess is an invalid weight and stays
/// visible.
template <class T>
void round_entropies(std::span<double> entropies) {
  constexpr double rounding = 16.0 * std::numeric_limits<T>::epsilon();
  for (double& entropy : entropies) {
    if (entropy < 0 && entropy >= -rounding) entropy = 0;
  }
}

}  // namespace attn
