#pragma once

#include <vector>

#include "tensor/buffer.hpp"
#include "train/parameters.hpp"

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
  double clip = 0;   ///< gradients are scaled to at most this norm, all tensors together; 0: not
};

/// Steps of all tensors of a model, in T. Adam: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², a step of
/// η m̂/(√v̂ + ε), m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ), t counted from 1.
template <class T>
class Optimizer {
 public:
  Optimizer(const Parameters& parameters, const OptimizerOptions& options, int threads);

  /// Step number t >= 1 at the rate η. Changes the gradients, too. Returns their norm before
  /// clipping, Σ in float64. No bit depends on the number of threads.
  double step(Index number, double rate, T* weights, T* gradients);

  /// The moments, of the layout of the weights: none, m, or m and v. A run that goes on restores
  /// them.
  std::vector<T*> moments();

 private:
  double norm_of(const T* numbers, Index count) const;
  void sgd(const Parameter& one, double rate, T* w, T* g);
  void adam(const Parameter& one, Index number, double rate, T* w, const T* g);
  void lamb(const Parameter& one, Index number, double rate, T* w, T* g);

  const Parameters& parameters_;
  OptimizerOptions options_;
  int threads_;
  Buffer<T> first_;
  Buffer<T> second_;
};

}  // namespace attn::train
