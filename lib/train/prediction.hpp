#pragma once

#include "tensor/shape.hpp"
#include "train/slot_message.hpp"

namespace attn::train {

/// The results of a pass for its targets.
struct Prediction {
  double loss = 0;      ///< Σ over targets of −log p(token), in nats, without smoothing
  double smoothed = 0;  ///< the same for the smoothed loss, whose gradient is taken
  Index correct = 0;    ///< targets whose token is the most probable, the first of equals
  Index count = 0;      ///< targets

  /// The same for the order of segments, if a batch has it: see SlotBatch::swapped.
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

  /// The loss whose gradient a step takes: smoothed/count + order_loss/order_count, where an empty
  /// mean is 0.
  double objective() const {
    const auto mean = [](double sum, Index n) { return n == 0 ? 0 : sum / static_cast<double>(n); };
    return mean(smoothed, count) + mean(order_loss, order_count);
  }
};

/// Sums of a slot, for another rank.
inline void put_sums(SlotMessage& message, const Prediction& sums) { message.put(sums); }
inline void take_sums(SlotMessage& message, Prediction& sums) { message.take(sums); }

}  // namespace attn::train
