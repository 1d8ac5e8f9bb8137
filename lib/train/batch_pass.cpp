#include "train/batch_pass.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "parallel/parallel_for.hpp"
#include "train/mechanism_model.hpp"
#include "train/slot_message.hpp"
#include "train/transformer.hpp"
#include "train/view_model.hpp"

namespace attn::train {
namespace {

// Numbers that are added at a time: few enough that the numbers of all slots fit into the
// second-level cache.
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

// Calls body(slot) for some slots.
template <class Body>
void for_slots(const SlotRange& slots, const Body& body) {
  for (Index n = 0; n < slots.count; ++n) body(static_cast<std::size_t>(slots.first + n));
}

template <class Sums>
Sums sum_of(const std::vector<Sums>& parts) {
  Sums sum;
  for (const Sums& part : parts) sum.add(part);
  return sum;
}

}  // namespace

template <class Model, class T>
BatchPass<Model, T>::BatchPass(const Model& model, int threads)
    : model_(model), threads_(threads), plans_(static_cast<std::size_t>(threads)) {}

template <class Model, class T>
typename Model::Sums BatchPass<Model, T>::predict(const T* weights,
                                                  const std::vector<Batch>& slots) {
  const MemoryPool::Use use(&pool_);
  const BatchShare share(std::ssize(slots), Ranks::current());
  const SlotRange own = share.own();
  std::vector<Sums> found(slots.size());
  parallel_for(own.count, threads_, [&](Index n, int worker) {
    Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans_[static_cast<std::size_t>(worker)];
    const auto at = static_cast<std::size_t>(own.first + n);
    found[at] = model_.predict(slot, slots[at]);
  });
  share.exchange(
      [&](int to) {
        SlotMessage message;
        for_slots(own, [&](std::size_t slot) { put_sums(message, found[slot]); });
        message.send(share.ranks(), to);
      },
      [&](int from) {
        SlotMessage message = SlotMessage::received(share.ranks(), from);
        for_slots(share.of(from), [&](std::size_t slot) { take_sums(message, found[slot]); });
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
  const BatchShare share(std::ssize(slots), Ranks::current());
  const SlotRange own = share.own();
  std::vector<Sums> found(slots.size());
  std::vector<TokenGradients> token_gradients(slots.size());
  parallel_for(own.count, threads_, [&](Index k, int worker) {
    const Index n = own.first + k;
    const auto at = static_cast<std::size_t>(n);
    Slot<T> slot;
    slot.weights = weights;
    slot.gradients = numbers_of(n);
    slot.dropout = {dropout.rate, dropout.of_weights, seed,
                    static_cast<std::uint32_t>(number * most_slots + n)};
    slot.plans = &plans_[static_cast<std::size_t>(worker)];
    found[at] = model_.differentiate(slot, slots[at], factors, token_gradients[at]);
  });
  T* const sum = numbers_of(0);
  if (slots.empty()) {
    std::fill_n(sum, model_.parameters().size(), T{0});
    return {{}, sum};
  }
  for (const Numbers& numbers : summed_numbers()) add(share.own_additions(), numbers);
  exchange(share, found, token_gradients);
  add_slots(share);
  for (const Parameter& one : model_.parameters().all()) {
    if (one.by_rows) std::fill_n(sum + one.offset, one.size(), T{0});
  }
  for (std::size_t n = 0; n < slots.size(); ++n) {
    model_.add_token_gradients(slots[n], token_gradients[n], sum);
  }
  return {sum_of(found), sum};
}

// The parameters that are not by rows; neighbours form one range.
template <class Model, class T>
auto BatchPass<Model, T>::summed_numbers() const -> std::vector<Numbers> {
  std::vector<Numbers> found;
  for (const Parameter& one : model_.parameters().all()) {
    if (one.by_rows) continue;
    if (!found.empty() && found.back().first + found.back().count == one.offset) {
      found.back().count += one.size();
    } else {
      found.push_back({one.offset, one.size()});
    }
  }
  return found;
}

template <class Model, class T>
void BatchPass<Model, T>::add(const std::vector<BatchShare::Addition>& additions,
                              const Numbers& numbers) {
  const Index pieces = (numbers.count + numbers_at_once - 1) / numbers_at_once;
  parallel_for(pieces, threads_, [&](Index piece, int) {
    const Index from = piece * numbers_at_once;
    const Index first = numbers.first + from;
    const Index count = std::min(numbers_at_once, numbers.count - from);
    for (const BatchShare::Addition& one : additions) {
      add_row<T>(numbers_of(one.to) + first, numbers_of(one.from) + first, count);
    }
  });
}

// Each rank gets the results of the others: the sums over targets, the gradients of tokens'
// vectors, and the part of the gradients that it adds.
template <class Model, class T>
void BatchPass<Model, T>::exchange(const BatchShare& share, std::vector<Sums>& found,
                                   std::vector<TokenGradients>& token_gradients) {
  const std::vector<Numbers> all = summed_numbers();
  const auto for_arrays = [&](int sender, const auto& body) {
    for_slots(share.of(sender), [&](std::size_t slot) {
      for (OwnedMatrix<T>* const rows : token_gradients[slot].arrays()) body(slot, *rows);
    });
  };
  // The memory of gradients that `sender` has, and `adder` adds.
  const auto for_parts = [&](int sender, int adder, const auto& body) {
    for (const Numbers& numbers : all) {
      const SlotRange part = share.part(adder, numbers.count);
      if (part.count == 0) continue;
      for (const Index slot : share.sums_of(sender)) {
        body(numbers_of(slot) + numbers.first + part.first, part.count);
      }
    }
  };
  share.exchange(
      [&](int to) {
        Ranks& ranks = share.ranks();
        SlotMessage message;
        for_slots(share.own(), [&](std::size_t slot) { put_sums(message, found[slot]); });
        for_arrays(ranks.own(), [&](std::size_t, const OwnedMatrix<T>& rows) {
          message.put(rows.rows());
          message.put(rows.cols());
        });
        message.send(ranks, to);
        const auto send = [&](const T* data, Index count) {
          ranks.send(to, std::as_bytes(std::span(data, static_cast<std::size_t>(count))));
        };
        for_arrays(ranks.own(), [&](std::size_t, const OwnedMatrix<T>& rows) {
          if (rows.size() > 0) send(rows.data(), rows.size());
        });
        for_parts(ranks.own(), to, send);
      },
      [&](int from) {
        Ranks& ranks = share.ranks();
        SlotMessage message = SlotMessage::received(ranks, from);
        for_slots(share.of(from), [&](std::size_t slot) { take_sums(message, found[slot]); });
        for_arrays(from, [&](std::size_t, OwnedMatrix<T>& rows) {
          Index count = 0;
          Index cols = 0;
          message.take(count);
          message.take(cols);
          rows = OwnedMatrix<T>(count, cols);
        });
        const auto receive = [&](T* data, Index count) {
          ranks.receive(from,
                        std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count))));
        };
        for_arrays(from, [&](std::size_t, const OwnedMatrix<T>& rows) {
          if (rows.size() > 0) receive(rows.data(), rows.size());
        });
        for_parts(from, ranks.own(), receive);
      });
}

// Adds the sums of all ranks, each rank its part, and gives the result to all.
template <class Model, class T>
void BatchPass<Model, T>::add_slots(const BatchShare& share) {
  if (!share.divided()) return;
  Ranks& ranks = share.ranks();
  std::vector<std::int64_t> ends(static_cast<std::size_t>(ranks.count()));
  for (const Numbers& numbers : summed_numbers()) {
    const SlotRange part = share.own_part(numbers.count);
    add(share.last_additions(), {numbers.first + part.first, part.count});
    for (int rank = 0; rank < ranks.count(); ++rank) {
      const SlotRange of = share.part(rank, numbers.count);
      ends[static_cast<std::size_t>(rank)] = (of.first + of.count) * static_cast<Index>(sizeof(T));
    }
    const std::span<T> all(numbers_of(0) + numbers.first, static_cast<std::size_t>(numbers.count));
    ranks.gather(std::as_writable_bytes(all), ends);
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
    // Only the first slot has gradients by rows. Untouched pages take no memory.
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
