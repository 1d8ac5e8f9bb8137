#pragma once

#include <cstdint>

#include "kernel/dropout.hpp"
#include "train/attention_plans.hpp"
#include "train/rows.hpp"

/// A step divides its batch into at most eight slots of whole sequences. A thread computes the
/// forward and the backward pass of one slot at a time, alone. The gradients of the slots are added
/// in a fixed order, so that no bit of a step depends on the number of threads.
namespace attn::train {

/// The sequences of a slot: `count` of them, padded to `length` positions each.
struct Sequences {
  Index count = 0;
  Index length = 0;
  const Index* lengths = nullptr;  ///< by sequence; null: all are whole

  Index rows() const { return count * length; }
  /// The number of positions of sequence n without padding.
  Index own_length(Index n) const { return lengths == nullptr ? length : lengths[n]; }
};

/// Dropout in one pass over one slot. Each place of a model with dropout has its own number; see
/// kernel/dropout.hpp.
struct Dropout {
  double rate = 0;        ///< of embeddings and of the results of sub-layers
  double of_weights = 0;  ///< of attention weights
  std::uint64_t seed = 0;
  std::uint32_t pass = 0;  ///< a different number for each step and slot

  /// Drops numbers of x: values in the forward pass, gradients in the backward pass.
  template <class T>
  void apply(OwnedMatrix<T>& x, std::uint32_t place) const {
    if (rate == 0) return;
    kernel::dropout(x.data(), 0, x.size(), rate, {seed, stream(place)});
  }

  /// Drops attention weights in later calls of the plan.
  template <class T>
  void apply_to_weights(AttentionPlan<T>& plan, std::uint32_t place) const {
    plan.set_dropout(of_weights, seed, stream(place));
  }

 private:
  std::uint64_t stream(std::uint32_t place) const { return std::uint64_t{pass} << 32U | place; }
};

/// The data that layers share during the pass over one slot.
template <class T>
struct Slot {
  const T* weights = nullptr;  ///< of the whole model
  /// Gradients of this slot. Each tensor belongs to one layer, which writes its gradient in the
  /// backward pass.
  T* gradients = nullptr;
  Dropout dropout;
  AttentionPlans<T>* plans = nullptr;  ///< of the thread
};

}  // namespace attn::train
