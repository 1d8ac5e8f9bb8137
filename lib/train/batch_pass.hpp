#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/memory_pool.hpp"
#include "train/batch_share.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// The shares that dropout removes: see Dropout.
struct DropoutRates {
  double rate = 0;
  double of_weights = 0;
};

/// Passes over batches, and their gradients, by several threads and, where there are ranks, by each
/// of them some slots. All ranks call the functions in the same order with the same arguments, and
/// find the same results, whose bits depend neither on ranks nor on threads. A model has, as
/// Transformer: the part of a batch that one slot computes, Batch, which knows its target_count();
/// the sums over targets, Sums, which add up by add() and go into a SlotMessage by put_sums and
/// take_sums; TokenGradients<T>, the arrays() of which are added to the tables last and in the
/// order of slots; parameters(), predict, differentiate and add_token_gradients.
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
