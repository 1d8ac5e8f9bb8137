#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// The rows of which a token is to be predicted, and those tokens.
struct Targets {
  std::vector<Index> rows;
  std::vector<Index> tokens;

  Index count() const { return static_cast<Index>(rows.size()); }
};

/// What a pass found about its targets.
struct Prediction {
  double loss = 0;      ///< Σ over targets of −log p(token), in nats, without smoothing
  double smoothed = 0;  ///< the same of the smoothed loss, whose gradient is taken
  Index correct = 0;    ///< targets whose token is the most probable one, the first of equal ones
  Index count = 0;      ///< targets

  /// The same of the order of segments, where a batch asks for it: see SlotBatch::swapped.
  double order_loss = 0;
  Index order_correct = 0;
  Index order_count = 0;

  void add(const Prediction& more) {
    loss += more.loss;
    smoothed += more.smoothed;
    correct += more.correct;
    count += more.count;
    order_loss += more.order_loss;
    order_correct += more.order_correct;
    order_count += more.order_count;
  }

  /// The loss whose gradient a step takes: smoothed/count + order_loss/order_count, where a mean of
  /// nothing is 0.
  double objective() const {
    const auto mean = [](double sum, Index n) { return n == 0 ? 0 : sum / static_cast<double>(n); };
    return mean(smoothed, count) + mean(order_loss, order_count);
  }
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

  /// The sums over the targets of the slot. Where `dx` has data, also takes the gradients of
  /// `factor` times the smoothed loss: writes those of W and b to the slot, adds that of x to `dx`.
  /// Where there is a `by_target`, writes what was found about each target.
  template <class T>
  Prediction forward(const Slot<T>& slot, MatrixView<const T> x, const Targets& targets,
                     double factor, MatrixView<T> dx, Prediction* by_target = nullptr) const;

  /// For `targets` targets: nothing is kept; the most of a pass without gradients, and with them.
  template <class T>
  PassBytes bytes(Index targets) const;

  /// Writes the logits of each row of x, (rows, vocabulary).
  template <class T>
  Rows<T> logits(const T* weights, MatrixView<const T> x) const;

 private:
  MatrixPlace weight_;
  Index bias_;
  double smoothing_;
};

}  // namespace attn::train
