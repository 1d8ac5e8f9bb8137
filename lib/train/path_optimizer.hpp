#pragma once

#include <string>
#include <vector>

#include "attnkit/basis_paths.hpp"
#include "tensor/buffer.hpp"
#include "train/optimizer_options.hpp"
#include "train/parameters.hpp"

namespace attn::train {

/// W_Q and W_K of an attention layer, whose optimiser steps in the space of basis paths.
struct PathLayer {
  std::string name;  ///< "decoder/layer0/self", for messages
  MatrixPlace wq;    ///< (heads·d, width), as in AttentionLayer
  MatrixPlace wk;
  Index heads = 1;
};

/// A column that a step left as it was, or would have left: see StepOptions::min_ratio.
struct SingularPath {
  std::size_t layer = 0;
  Index head = 0;
  Index column = 0;
  double ratio = 0;
};

/// The outcome of a step in paths for all layers.
struct PathOutcome {
  double least_ratio = 0;
  double largest_ratio = 0;
  std::vector<SingularPath> singular;  ///< these columns, and their moments, stayed
};

/// SI-SGD or SI-Adam (SI Alg. 2, corrected) for some layers: PathPlan::run for each head with the
/// published skeleton, which runs across heads: column c of head h goes through row (h·d + c) mod
/// width of both matrices.
template <class T>
class PathOptimizer {
 public:
  /// Requires Rule::sgd or Rule::adam. Throws the errors of PathPlan.
  PathOptimizer(std::vector<PathLayer> layers, const OptimizerOptions& options, int threads);

  /// The memory of a PathOptimizer: moments, copies of weights and gradients, and working memory.
  static std::int64_t bytes(const std::vector<PathLayer>& layers, const OptimizerOptions& options);

  /// Σ G² over the gradients of all basis paths.
  double squared_gradients(const T* weights, const T* gradients);

  /// Step number t >= 1 at the rate η, from gradients times `factor`.
  PathOutcome step(Index number, double rate, double factor, T* weights, const T* gradients);

  const std::vector<PathLayer>& layers() const { return layers_; }

  /// The moments of all layers, one after the other: one or two such arrays, or none. A resumed run
  /// restores them.
  std::vector<Buffer<T>*> moments();

 private:
  // The weights or gradients of a layer as (heads, width, d).
  struct Pair {
    Buffer<T> wq, wk;
    explicit Pair(Index size) : wq(size), wk(size) {}
  };
  struct Layer {
    PathPlan<T> plan;
    Pair weights, gradients;
    PathInputs<T> in;  // of these
    Index moments_at = 0;
  };
  void read(std::size_t layer, const T* flat, Pair& pair) const;

  std::vector<PathLayer> layers_;
  OptimizerOptions options_;
  std::vector<Layer> kept_;
  Buffer<T> first_;
  Buffer<T> second_;
};

}  // namespace attn::train
