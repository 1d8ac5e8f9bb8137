#pragma once

#include "tensor/shape.hpp"

namespace attn::train {

enum class Rule {
  sgd,   ///< g ← g + λw;  m ← μm + g;  w ← w − ηm
  adam,  ///< w ← w(1 − ηλ), then Adam's step (Kingma and Ba, 2015; with λ: AdamW)
  lamb,  ///< r = m̂/(√v̂ + ε) + λw;  w ← w − η‖w‖/‖r‖ r by tensor, 1 where a norm is 0 (You, 2020)
};

struct OptimizerOptions {
  Rule rule = Rule::adam;
  double momentum = 0;  ///< μ of sgd
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0;  ///< λ, for matrices only: see Parameter::decays
  /// In paths, columns whose ratio R is below this stay as they are: StepOptions::min_ratio.
  double min_ratio = 1e-3;
  double clip =
      0;  ///< gradients are scaled to at most this norm, all tensors together; 0: no clipping
};

/// The number of moments that a rule keeps of each gradient.
inline Index moments_kept(const OptimizerOptions& options) {
  if (options.rule != Rule::sgd) return 2;
  return options.momentum != 0 ? 1 : 0;
}

}  // namespace attn::train
