#pragma once

#include <algorithm>
#include <cmath>

#include "kernel/tile.hpp"
#include "train/prediction.hpp"

namespace attn::train {

/// The loss of one target t under p = softmax(z), −(1 − ε) log p_t − ε/n Σ_v log p_v with ε the
/// label smoothing, for n finite logits. Replaces the logits by `factor` times the gradient.
template <class T>
Prediction softmax_loss(T* z, Index n, Index token, double smoothing, double factor) {
  Prediction found;
  found.count = 1;
  const double shift = kernel::row_max(z, n, nullptr);
  const double target = static_cast<double>(z[token]);
  const bool is_first = target == shift && std::find(z, z + token, z[token]) == z + token;
  found.correct = is_first ? 1 : 0;
  double mean = 0;
  if (smoothing > 0) {
    for (Index v = 0; v < n; ++v) mean += static_cast<double>(z[v]);
    mean /= static_cast<double>(n);
  }
  const double sum = kernel::exp_row(z, z, n, nullptr, shift);
  const double log_sum = shift + std::log(sum);
  found.loss = log_sum - target;
  found.smoothed = log_sum - (1 - smoothing) * target - smoothing * mean;
  kernel::scale_row(z, n, factor / sum);
  z[token] -= static_cast<T>(factor * (1 - smoothing));
  if (smoothing > 0) {
    const T each = static_cast<T>(factor * smoothing / static_cast<double>(n));
    for (Index v = 0; v < n; ++v) z[v] -= each;
  }
  return found;
}

}  // namespace attn::train
