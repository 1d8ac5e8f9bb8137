#pragma once

#include <cstdint>

#include "kernel/dropout.hpp"
#include "train/attention_plans.hpp"
#include "train/rows.hpp"

/// A step divides its batch into slots, at most eight, each some whole sequences. A thread computes
/// the forward and the backward pass of one slot at a time, alone; the gradients of the slots are
/// added in a fixed order. So no bit of a step depends on the number of threads.
namespace attn::train {

/// The sequences of a slot: `count` of them, padded to `length` positions each.
struct Sequences {
  Index count = 0;
  Index length = 0;
  const Index* lengths = nullptr;  ///< by sequence; null: all are whole

  Index rows() const { return count * length; }
  /// The positions of sequence n that are its own.
  Index own_length(Index n) const { return lengths == nullptr ? length : lengths[n]; }
};

/// Dropout in one pass over one slot. Every place of a model where it applies has a number of its
/// own; see kernel/dropout.hpp.
struct Dropout {
  double rate = 0;        ///< of embeddings and of the results of sub-layers
  double of_weights = 0;  ///< of attention weights
  std::uint64_t seed = 0;
  std::uint32_t pass = 0;  ///< a number of its own for each step and slot

  /// Applies to all numbers of x, in the forward pass to values, in the backward pass to gradients.
  template <class T>
  void apply(Rows<T>& x, std::uint32_t place) const {
    if (rate == 0) return;
    kernel::dropout(x.data(), 0, x.size(), rate, {seed, stream(place)});
  }

  /// Applies to the weights of attention in later calls of the plan.
  template <class T>
  void apply_to_weights(AttentionPlan<T>& plan, std::uint32_t place) const {
    plan.set_dropout(of_weights, seed, stream(place));
  }

 private:
  std::uint64_t stream(std::uint32_t place) const { return std::uint64_t{pass} << 32U | place; }
};

/// What the layers share during the pass over one slot.
template <class T>
struct Slot {
  const T* weights = nullptr;  ///< of the whole model
  /// Of this slot. Each tensor belongs to one layer, which writes its gradient in the backward
  /// pass.
  T* gradients = nullptr;
  Dropout dropout;
  AttentionPlans<T>* plans = nullptr;  ///< of the thread
};

}  // namespace attn::train
