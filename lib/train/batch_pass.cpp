#include "train/batch_pass.hpp"

#include <algorithm>
#include <utility>

#include "kernel/parallel.hpp"
#include "train/mechanism_model.hpp"
#include "train/transformer.hpp"
#include "train/view_model.hpp"

namespace attn::train {
namespace {

// Numbers that are added at a time: those of all slots fit into the second-level cache.
constexpr Index numbers_at_once = 4096;

double mean_factor(Index count) { return count == 0 ? 0 : 1 / static_cast<double>(count); }

template <class Batch>
double factors_of(const std::vector<Batch>& slots) {
  Index targets = 0;
  for (const Batch& slot : slots) targets += slot.target_count();
  return mean_factor(targets);
}

LossFactors factors_of(const std::vector<SlotBatch>& slots) {
  Index targets = 0;
  Index ordered = 0;
  for (const SlotBatch& slot : slots) {
    targets += slot.target_count();
    ordered += std::ssize(slot.swapped);
  }
  return {mean_factor(targets), mean_factor(ordered)};
}

template <class Sums>
Sums sum_of(const std::vector<Sums>& parts) {
  Sums sum;
  for (const Sums& part : parts) sum.add(part);
  return sum;
}

}  // namespace

std::vector<SlotRange> slot_ranges(Index sequences) {
  const Index slots = std::min(sequences, most_slots);
  std::vector<SlotRange> ranges;
  for (Index n = 0; n < slots; ++n) {
    const Index first = n * sequences / slots;
    ranges.push_back({first, (n + 1) * sequences / slots - first});
  }
  return ranges;
}

template <class Model, class T>
BatchPass<Model, T>::BatchPass(const Model& model, int threads)
    : model_(model), threads_(threads), plans_(static_cast<std::size_t>(threads)) {}

template <class Model, class T>
typename Model::Sums BatchPass<Model, T>::predict(const T* weights,
                                                  const std::vector<Batch>& slots) {
  const MemoryPool::Use use(&pool_);
  std::vector<Sums> found(slots.size());
  kernel::parallel_for(static_cast<Index>(slots.size()), threads_, [&](Index n, int worker) {
    Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans_[static_cast<std::size_t>(worker)];
    const auto at = static_cast<std::size_t>(n);
    found[at] = model_.predict(slot, slots[at]);
  });
  return sum_of(found);
}

template <class Model, class T>
typename BatchPass<Model, T>::Gradients BatchPass<Model, T>::differentiate(
    const T* weights, const std::vector<Batch>& slots, const DropoutRates& dropout,
    std::uint64_t seed, Index number) {
  while (gradients_.size() < std::max<std::size_t>(slots.size(), 1)) {
    gradients_.emplace_back(model_.parameters().size());
  }
  const MemoryPool::Use use(&pool_);
  const auto factors = factors_of(slots);
  std::vector<Sums> found(slots.size());
  std::vector<typename Model::template TokenGradients<T>> token_gradients(slots.size());
  kernel::parallel_for(static_cast<Index>(slots.size()), threads_, [&](Index n, int worker) {
    const auto at = static_cast<std::size_t>(n);
    Slot<T> slot;
    slot.weights = weights;
    slot.gradients = gradients_[at].data();
    slot.dropout = {dropout.rate, dropout.of_weights, seed,
                    static_cast<std::uint32_t>(number * most_slots + n)};
    slot.plans = &plans_[static_cast<std::size_t>(worker)];
    found[at] = model_.differentiate(slot, slots[at], factors, token_gradients[at]);
  });
  add_slots(static_cast<Index>(slots.size()));
  T* const sum = gradients_.front().data();
  for (std::size_t n = 0; n < slots.size(); ++n) {
    model_.add_token_gradients(slots[n], token_gradients[n], sum);
  }
  return {sum_of(found), sum};
}

template <class Model, class T>
void BatchPass<Model, T>::add_slots(Index slots) {
  for (const Parameter& one : model_.parameters().all()) {
    const auto numbers_of = [&](Index slot) {
      return gradients_[static_cast<std::size_t>(slot)].data() + one.offset;
    };
    if (one.by_rows || slots == 0) {
      std::fill_n(numbers_of(0), one.size(), T{0});
      continue;
    }
    const Index pieces = (one.size() + numbers_at_once - 1) / numbers_at_once;
    kernel::parallel_for(pieces, threads_, [&](Index piece, int) {
      const Index first = piece * numbers_at_once;
      const Index count = std::min(numbers_at_once, one.size() - first);
      for (Index step = 1; step < slots; step *= 2) {
        for (Index n = 0; n + step < slots; n += 2 * step) {
          add_row<T>(numbers_of(n) + first, numbers_of(n + step) + first, count);
        }
      }
    });
  }
}

// The slots of a batch, and the threads that compute them.
template <class Model, class T>
std::pair<Index, Index> BatchPass<Model, T>::slots_and_threads(Index sequences) const {
  const Index slots = std::clamp<Index>(sequences, 1, most_slots);
  return {slots, std::min<Index>(threads_, slots)};
}

template <class Model, class T>
std::int64_t BatchPass<Model, T>::bytes(const SlotBytes& slot, Index sequences,
                                        const SlotShapes& shapes) const {
  const auto [slots, threads] = slots_and_threads(sequences);
  Index gradients = model_.parameters().size();
  for (const Parameter& one : model_.parameters().all()) {
    // Those by rows are in the first slot. Pages that nobody touches take no memory.
    if (!one.by_rows) gradients += (slots - 1) * one.size();
  }
  return gradients * static_cast<Index>(sizeof(T)) + pool_bytes(slot, sequences) +
         threads * plan_bytes(slot, shapes);
}

template <class Model, class T>
std::int64_t BatchPass<Model, T>::pool_bytes(const SlotBytes& slot, Index sequences) const {
  const auto [slots, threads] = slots_and_threads(sequences);
  const std::int64_t blocks =
      slots * slot.returned + threads * std::max(slot.differentiate, slot.predict);
  // For gaps between the blocks of several threads.
  return blocks + blocks / 8;
}

template <class Model, class T>
void BatchPass<Model, T>::reserve(const SlotBytes& slot, Index sequences) {
  pool_.reserve(pool_bytes(slot, sequences));
}

template class BatchPass<Transformer, float>;
template class BatchPass<Transformer, double>;
template class BatchPass<MechanismModel, float>;
template class BatchPass<MechanismModel, double>;
template class BatchPass<ViewModel, float>;
template class BatchPass<ViewModel, double>;

}  // namespace attn::train
