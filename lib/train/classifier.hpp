#pragma once

#include <optional>
#include <string>

#include "train/linear.hpp"
#include "train/softmax_layer.hpp"

namespace attn::train {

/// Two layers: the softmax of W₂ max(W₁ x + b₁, 0) + b₂ over the answers, W₁ (inner, width), W₂
/// (answers, inner).
class Classifier {
 public:
  struct Options {
    Index width = 0;
    Index inner = 0;
    Index answers = 0;
    double deviation = 0;         ///< of W₁ at the start
    double answer_deviation = 0;  ///< of W₂
    double smoothing = 0;         ///< see SoftmaxLayer
  };

  /// Adds PREFIXw1, b1, softmax and softmax_bias, where the last two are W₂ and b₂.
  Classifier(Parameters& parameters, const std::string& prefix, const Options& options);

  /// The sums over the targets of the slot. With a `by_target`, also writes the result of each
  /// target. If `dx` has data, takes the gradients of `factor` times the smoothed loss: writes the
  /// gradients of the classifier's tensors to the slot, and adds the gradient of x to `dx`.
  template <class T>
  Prediction forward(const Slot<T>& slot, MatrixView<const T> x, const Targets& targets,
                     double factor, MatrixView<T> dx, Prediction* by_target) const;

  /// The bytes for `targets` targets: see SoftmaxLayer::bytes.
  template <class T>
  PassBytes bytes(Index targets) const {
    const std::int64_t inner = row_bytes<T>(targets, first_.outputs());
    const PassBytes answers = answers_.bytes<T>(targets);
    return {0, inner + answers.forward, 2 * inner + answers.backward};
  }

 private:
  Linear first_;
  SoftmaxLayer answers_;
};

}  // namespace attn::train
