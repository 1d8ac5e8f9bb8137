#pragma once

#include <optional>
#include <vector>

#include "tensor/buffer.hpp"
#include "train/optimizer_options.hpp"
#include "train/parameters.hpp"
#include "train/path_optimizer.hpp"

namespace attn::train {

/// Steps of all tensors of a model, in T. Adam: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², a step of
/// η m̂/(√v̂ + ε), m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ), t counted from 1. W_Q and W_K of some layers
/// may step in paths instead (PathOptimizer), by the same rule: clipping, momentum and decay then
/// act on gradients and values of their basis paths.
template <class T>
class WeightOptimizer {
 public:
  /// Throws Error(usage) for lamb in paths, and the errors of PathPlan.
  WeightOptimizer(const Parameters& parameters, const OptimizerOptions& options,
                  const std::vector<PathLayer>& in_paths, int threads);

  /// The memory of such an optimizer: the moments, and the needs of steps in paths.
  static std::int64_t bytes(const Parameters& parameters, const OptimizerOptions& options,
                            const std::vector<PathLayer>& in_paths);

  struct Outcome {
    double gradient_norm = 0;  ///< before clipping
    PathOutcome paths;         ///< of the layers in paths, if there are any
  };

  /// Step number t >= 1 at the rate η. Changes the gradients, too. No bit depends on the number of
  /// threads.
  Outcome step(Index number, double rate, T* weights, T* gradients);

  /// The moments, in the layout of the weights: none, m, or m and v. A resumed run restores these,
  /// and the moments in paths.
  std::vector<T*> moments();
  std::optional<PathOptimizer<T>>& in_paths() { return in_paths_; }

 private:
  double squares_of(const T* numbers, Index count) const;
  void sgd(const Parameter& one, double rate, T* w, T* g);
  void adam(const Parameter& one, Index number, double rate, T* w, const T* g);
  void lamb(const Parameter& one, Index number, double rate, T* w, T* g);

  std::vector<Parameter> plain_;  // tensors that do not step in paths
  Index size_;                    // of all parameters
  OptimizerOptions options_;
  int threads_;
  std::optional<PathOptimizer<T>> in_paths_;
  Buffer<T> first_;
  Buffer<T> second_;
};

}  // namespace attn::train
