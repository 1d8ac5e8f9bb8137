#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/memory_pool.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

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

/// Passes over batches, and their gradients, by several threads. A model has, as Transformer:
/// the part of a batch that one slot computes, Batch, which knows its target_count(); the sums over
/// targets, Sums, which add up by add(); TokenGradients<T>, which are added to the tables last and
/// in the order of slots; parameters(), predict, differentiate and add_token_gradients.
template <class Model, class T>
class BatchPass {
 public:
  using Batch = typename Model::Batch;
  using Sums = typename Model::Sums;

  /// Keeps a reference to the model. Requires threads >= 1.
  BatchPass(const Model& model, int threads);

  /// Sums over all targets.
  Sums predict(const T* weights, const std::vector<Batch>& slots);

  /// The same, and the gradients of the mean smoothed loss of all targets, for a Transformer those
  /// of Prediction::objective, in an array that lasts until the next call. Slots are added as
  /// ((0 + 1) + (2 + 3)) + …, so that neighbours can be added in different places. `number` is that
  /// of the step, which chooses what dropout removes.
  struct Gradients {
    Sums prediction;
    T* gradients = nullptr;
  };
  Gradients differentiate(const T* weights, const std::vector<Batch>& slots,
                          const DropoutRates& dropout, std::uint64_t seed, Index number);

  /// The most memory that all calls take for batches of at most `sequences` sequences, of whose
  /// largest slots `slot` has the bytes.
  std::int64_t bytes(const SlotBytes& slot, Index sequences, const SlotShapes& shapes) const;

  /// Makes room for such batches in one piece: where memory is added as it is needed, some of it
  /// lies between blocks and is of no use. Throws std::bad_alloc.
  void reserve(const SlotBytes& slot, Index sequences);

 private:
  void add_slots(Index slots);
  std::pair<Index, Index> slots_and_threads(Index sequences) const;
  std::int64_t pool_bytes(const SlotBytes& slot, Index sequences) const;

  const Model& model_;
  int threads_;
  MemoryPool pool_;
  std::vector<Buffer<T>> gradients_;      // by slot
  std::vector<AttentionPlans<T>> plans_;  // by thread
};

}  // namespace attn::train
