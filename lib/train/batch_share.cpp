#include "train/batch_share.hpp"

#include <algorithm>

namespace attn::train {
namespace {

// Part n of `parts` of some items.
SlotRange equal_part(Index n, Index parts, Index items) {
  const Index first = n * items / parts;
  return {first, (n + 1) * items / parts - first};
}

// An addition, and the slots whose sum it makes.
struct Sum {
  BatchShare::Addition addition;
  SlotRange slots;
};

std::vector<Sum> all_sums(Index slots) {
  std::vector<Sum> all;
  for (Index step = 1; step < slots; step *= 2) {
    for (Index n = 0; n + step < slots; n += 2 * step) {
      all.push_back({{n, n + step}, {n, std::min(2 * step, slots - n)}});
    }
  }
  return all;
}

bool contains(const SlotRange& range, const SlotRange& other) {
  return range.contains(other.first) && range.contains(other.first + other.count - 1);
}

}  // namespace

std::vector<SlotRange> slot_ranges(Index sequences) {
  const Index slots = std::min(sequences, most_slots);
  std::vector<SlotRange> ranges;
  for (Index n = 0; n < slots; ++n) ranges.push_back(equal_part(n, slots, sequences));
  return ranges;
}

BatchShare::BatchShare(Index slots, Ranks* ranks)
    : slots_(slots),
      ranks_(ranks),
      own_(ranks == nullptr ? 0 : ranks->own()),
      count_(ranks == nullptr ? 1 : ranks->count()) {}

SlotRange BatchShare::of(int rank) const { return equal_part(rank, count_, slots_); }

SlotRange BatchShare::part(int rank, Index count) const { return equal_part(rank, count_, count); }

std::vector<BatchShare::Addition> BatchShare::additions_within(const SlotRange& slots) const {
  std::vector<Addition> found;
  for (const Sum& sum : all_sums(slots_)) {
    if (contains(slots, sum.slots)) found.push_back(sum.addition);
  }
  return found;
}

std::vector<BatchShare::Addition> BatchShare::own_additions() const {
  return additions_within(own());
}

std::vector<Index> BatchShare::sums_of(int rank) const {
  const SlotRange slots = of(rank);
  const std::vector<Addition> added = additions_within(slots);
  std::vector<Index> found;
  for (Index n = slots.first; n < slots.first + slots.count; ++n) {
    const bool remains = std::none_of(added.begin(), added.end(),
                                      [&](const Addition& one) { return one.from == n; });
    if (remains) found.push_back(n);
  }
  return found;
}

std::vector<BatchShare::Addition> BatchShare::last_additions() const {
  std::vector<Addition> found;
  for (const Sum& sum : all_sums(slots_)) {
    bool is_within = false;
    for (int rank = 0; rank < count_; ++rank) is_within |= contains(of(rank), sum.slots);
    if (!is_within) found.push_back(sum.addition);
  }
  return found;
}

// In round k, ranks a and b with a + b = k modulo P meet: each rank meets one other, or itself. The
// lower rank sends first.
void BatchShare::exchange(const std::function<void(int rank)>& send,
                          const std::function<void(int rank)>& receive) const {
  for (int round = 0; round < count_; ++round) {
    const int other = (round - own_ + count_) % count_;
    if (own_ < other) {
      send(other);
      receive(other);
    } else if (other < own_) {
      receive(other);
      send(other);
    }
  }
}

}  // namespace attn::train
