#pragma once

#include <limits>
#include <span>

namespace attn {

/// Clears rounding from an entropy −Σ_j π_ij log π_ij of weights in T. A weight of 1 may be rounded
/// up, which makes the entropy negative by a few roundings; it becomes 0. A larger excess comes
/// from an invalid weight and stays visible.
template <class T>
void round_entropies(std::span<double> entropies) {
  constexpr double rounding = 16.0 * std::numeric_limits<T>::epsilon();
  for (double& entropy : entropies) {
    if (entropy < 0 && entropy >= -rounding) entropy = 0;
  }
}

}  // namespace attn
