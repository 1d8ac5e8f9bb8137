#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/memory_pool.hpp"
#include "train/batch_share.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// The rates of dropout: see Dropout.
struct DropoutRates {
  double rate = 0;
  double of_weights = 0;
};

/// Passes over batches, and their gradients, by several threads; with ranks, each computes some
/// slots. All ranks call the functions in the same order with the same arguments, and get the same
/// results, whose bits depend neither on ranks nor on threads. Like Transformer, a model has
///
/// - Batch, the part of a batch that one slot computes, which knows its target_count();
/// - Sums over targets, with add(), put_sums and take_sums (of a SlotMessage);
/// - TokenGradients<T>, whose arrays() are added to the tables last, in the order of slots;
/// - parameters(), predict, differentiate and add_token_gradients.
template <class Model, class T>
class BatchPass {
 public:
  using Batch = typename Model::Batch;
  using Sums = typename Model::Sums;

  /// Keeps a reference to the model. Requires threads >= 1.
  BatchPass(const Model& model, int threads);

  /// Sums over all targets.
  Sums predict(const T* weights, const std::vector<Batch>& slots);

  /// The same, and the gradients of the mean smoothed loss of all targets (for a Transformer, of
  /// Prediction::objective), in an array that is valid until the next call. Slots are added as ((0
  /// + 1) + (2 + 3)) + …, so that neighbours can be added in different places. `number` is the
  /// number of the step, which chooses the elements that dropout removes.
  struct Gradients {
    Sums prediction;
    T* gradients = nullptr;
  };
  Gradients differentiate(const T* weights, const std::vector<Batch>& slots,
                          const DropoutRates& dropout, std::uint64_t seed, Index number);

  /// The most memory that all calls take for batches of at most `sequences` sequences; `slot` has
  /// the bytes of their largest slots.
  std::int64_t bytes(const SlotBytes& slot, Index sequences, const SlotShapes& shapes) const;

  /// Makes room for such batches in one piece; memory added on demand would leave unusable gaps
  /// between blocks. Throws std::bad_alloc.
  void reserve(const SlotBytes& slot, Index sequences);

 private:
  // Numbers in the flat array of all parameters.
  struct Numbers {
    Index first = 0;
    Index count = 0;
  };
  using TokenGradients = typename Model::template TokenGradients<T>;

  T* numbers_of(Index slot) const { return gradients_[static_cast<std::size_t>(slot)].data(); }
  std::vector<Numbers> summed_numbers() const;
  void add(const std::vector<BatchShare::Addition>& additions, const Numbers& numbers);
  void exchange(const BatchShare& share, std::vector<Sums>& found,
                std::vector<TokenGradients>& token_gradients);
  void add_slots(const BatchShare& share);
  std::pair<Index, Index> slots_and_threads(Index sequences) const;
  std::int64_t pool_bytes(const SlotBytes& slot, Index sequences) const;

  const Model& model_;
  int threads_;
  MemoryPool pool_;
  std::vector<Buffer<T>> gradients_;      // by slot
  std::vector<AttentionPlans<T>> plans_;  // by thread
};

}  // namespace attn::train
