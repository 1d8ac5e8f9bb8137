#pragma once

#include <cstdint>
#include <vector>

#include "tensor/memory_pool.hpp"
#include "train/transformer.hpp"

namespace attn::train {

/// The most slots of a batch.
inline constexpr Index most_slots = 8;

/// The sequences [first, first + count) of a batch that belong to a slot: as equal as can be.
struct SlotRange {
  Index first = 0;
  Index count = 0;
};
std::vector<SlotRange> slot_ranges(Index sequences);

/// The shares that dropout removes: see Dropout.
struct DropoutRates {
  double rate = 0;
  double of_weights = 0;
};

/// Passes over batches, and their gradients, by several threads.
template <class T>
class BatchPass {
 public:
  /// Keeps a reference to the model. Requires threads >= 1.
  BatchPass(const Transformer& model, int threads);

  /// Sums over all targets.
  Prediction predict(const T* weights, const std::vector<SlotBatch>& slots);

  /// The same, and the gradients of Prediction::objective, in an array that lasts until the next
  /// call. Slots are added as ((0 + 1) + (2 + 3)) + …, so that neighbours can be
  /// added in different places. `number` is that of the step, which chooses what dropout removes.
  struct Gradients {
    Prediction prediction;
    T* gradients = nullptr;
  };
  Gradients differentiate(const T* weights, const std::vector<SlotBatch>& slots,
                          const DropoutRates& dropout, std::uint64_t seed, Index number);

 private:
  void add_slots(Index slots);

  const Transformer& model_;
  int threads_;
  MemoryPool pool_;
  std::vector<Buffer<T>> gradients_;      // by slot
  std::vector<AttentionPlans<T>> plans_;  // by thread
};

}  // namespace attn::train
