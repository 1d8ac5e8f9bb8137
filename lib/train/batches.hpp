#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::train {

/// One pass over a split in an order of its own.
struct Epoch {
  std::uint64_t seed = 0;
  Index number = 0;  ///< >= 0

  auto operator<=>(const Epoch&) const = default;
};

/// A permutation of 0 … count − 1, a function of (count, epoch) only: k is sorted by element
/// number·count + k of the uniform RandomStream(seed, "order of an epoch"), ties by k. All
/// permutations are equally likely, up to ties between numbers of 53 bits.
std::vector<Index> epoch_order(Index count, const Epoch& epoch);

/// A split as batches of `batch` items each; the last has the rest. A derived class defines items,
/// and the part of a batch that one slot computes. A batch is divided into slots by slot_ranges.
template <class Batch>
class BatchesOf {
 public:
  virtual ~BatchesOf() = default;

  Index items() const { return items_; }
  Index batches() const { return (items_ + batch_ - 1) / batch_; }

  /// The number of items in the largest batch.
  Index largest() const { return std::min(batch_, items_); }

  /// The sizes of slots, in items.
  std::set<Index> slot_sizes() const;

  /// Batch `number` of an epoch, in which every item occurs once, in the order of epoch_order. A
  /// function of the arguments only. Not thread-safe, as the order of the last epoch is kept.
  /// Requires 0 <= number < batches().
  std::vector<Batch> training(const Epoch& epoch, Index number);

  /// Batch `number` of the items in the order of the split.
  std::vector<Batch> evaluation(Index number) const;

 protected:
  /// Requires items >= 0 and batch >= 1.
  BatchesOf(Index items, Index batch) : items_(items), batch_(batch) {}
  BatchesOf(const BatchesOf&) = default;
  BatchesOf& operator=(const BatchesOf&) = default;

  /// The slot of some items; `epoch` is empty in evaluation.
  virtual Batch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const = 0;

 private:
  std::vector<Batch> slots(std::span<const Index> items, const std::optional<Epoch>& epoch) const;

  Index items_;
  Index batch_;
  std::optional<Epoch> ordered_;
  std::vector<Index> order_;  // of the last epoch
};

}  // namespace attn::train
