#pragma once

#include <algorithm>
#include <cstdint>

#include "train/attention_plans.hpp"
#include "train/rows.hpp"

namespace attn::train {

/// The memory of a layer in the pass over one slot, in bytes, without the working memory of
/// attention plans: see AttentionPlans::bytes. Upper bounds.
struct PassBytes {
  std::int64_t kept = 0;  ///< what the forward pass keeps for the backward pass
  std::int64_t forward =
      0;  ///< the most that the forward pass takes in addition, its result included
  std::int64_t backward = 0;  ///< the same for the backward pass

  /// The bytes of this layer and another one that runs before or after it.
  PassBytes then(const PassBytes& other) const {
    return {kept + other.kept, std::max(forward, other.forward),
            std::max(backward, other.backward)};
  }
};

/// The bytes of a OwnedMatrix<T>.
template <class T>
std::int64_t row_bytes(Index rows, Index cols) {
  return rows * cols * static_cast<Index>(sizeof(T)) + buffer_margin;
}

/// The most bytes of a model for slots of some size.
struct SlotBytes {
  std::int64_t differentiate = 0;  ///< a pass with gradients
  std::int64_t predict = 0;        ///< a pass without
  std::int64_t returned = 0;       ///< results of a pass that are kept until all slots are done
  PlanBytes plan;                  ///< the largest of its attention plans
  Index plans = 0;                 ///< number of attention plans for slots of one shape
};

/// The number of shapes of slots.
struct SlotShapes {
  Index trained = 0;    ///< shapes of slots in training, perhaps also in evaluation
  Index evaluated = 0;  ///< other shapes of slots in evaluation
};

/// The most bytes of the attention plans of one thread.
inline std::int64_t plan_bytes(const SlotBytes& slot, const SlotShapes& shapes) {
  const Index trained = std::min(shapes.trained * slot.plans, most_plans);
  const Index evaluated = std::min(shapes.evaluated * slot.plans, most_plans - trained);
  return trained * slot.plan.gradients + evaluated * slot.plan.results;
}

}  // namespace attn::train
