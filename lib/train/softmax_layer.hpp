#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/prediction.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// The rows for which tokens are predicted, and these tokens.
struct Targets {
  std::vector<Index> rows;
  std::vector<Index> tokens;

  Index count() const { return static_cast<Index>(rows.size()); }
};

/// Softmax over the vocabulary: logits z = W x + b for the rows with targets. The loss of a target
/// t is −(1 − ε) log p_t − ε/V Σ_v log p_v, with ε the label smoothing.
class SoftmaxLayer {
 public:
  /// Uses `tied` as W if it is given, else adds PREFIXsoftmax (vocabulary, width); adds
  /// PREFIXsoftmax_bias (vocabulary).
  SoftmaxLayer(Parameters& parameters, const std::string& prefix,
               const std::optional<MatrixPlace>& tied, Index vocabulary, Index width,
               double deviation, double smoothing);

  /// The sums over the targets of the slot. If `dx` has data, also takes the gradients of `factor`
  /// times the smoothed loss: writes the gradients of W and b to the slot, and adds the gradient of
  /// x to `dx`. With a `by_target`, writes the result of each target.
  template <class T>
  Prediction forward(const Slot<T>& slot, MatrixView<const T> x, const Targets& targets,
                     double factor, MatrixView<T> dx, Prediction* by_target = nullptr) const;

  /// The bytes for `targets` targets: nothing is kept; the most of a pass without gradients, and
  /// with them.
  template <class T>
  PassBytes bytes(Index targets) const;

  /// Writes the logits of each row of x, (rows, vocabulary).
  template <class T>
  OwnedMatrix<T> logits(const T* weights, MatrixView<const T> x) const;

 private:
  MatrixPlace weight_;
  Index bias_;
  double smoothing_;
};

}  // namespace attn::train
