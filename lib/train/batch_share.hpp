#pragma once

#include <functional>
#include <vector>

#include "parallel/ranks.hpp"
#include "tensor/shape.hpp"

namespace attn::train {

/// The most slots of a batch.
inline constexpr Index most_slots = 8;

/// Neighbours [first, first + count): sequences of a batch that belong to a slot, or slots that
/// belong to a rank.
struct SlotRange {
  Index first = 0;
  Index count = 0;

  bool contains(Index n) const { return n >= first && n < first + count; }
};

/// The slots of a batch, as equal as possible.
std::vector<SlotRange> slot_ranges(Index sequences);

/// How P ranks share the S slots of a batch, and the numbers of their sum. Rank r computes the
/// slots [r·S/P, (r + 1)·S/P). The sum of all slots is ((0 + 1) + (2 + 3)) + … for any number of
/// ranks: a rank first adds its own slots as far as possible, and the remaining sums are added in P
/// parts, by one rank each.
class BatchShare {
 public:
  /// `ranks` may be null: then one rank has all slots. Requires slots >= 0.
  BatchShare(Index slots, Ranks* ranks);

  bool divided() const { return count_ > 1; }
  Ranks& ranks() const { return *ranks_; }  ///< only if divided

  /// The slots of a rank, perhaps none.
  SlotRange of(int rank) const;
  SlotRange own() const { return of(own_); }

  /// The part of `count` numbers that a rank adds.
  SlotRange part(int rank, Index count) const;
  SlotRange own_part(Index count) const { return part(own_, count); }

  /// Adds the numbers of slot `from` to those of slot `to`.
  struct Addition {
    Index to;
    Index from;
  };

  /// The additions among this rank's own slots, in order.
  std::vector<Addition> own_additions() const;

  /// The slots of a rank that hold its sums after its own additions.
  std::vector<Index> sums_of(int rank) const;

  /// The additions that remain, in order. Afterwards slot 0 holds the sum of all slots.
  std::vector<Addition> last_additions() const;

  /// Calls send(rank) and receive(rank) once for every other rank, in an order that never
  /// deadlocks, even if a message leaves a rank only when the other rank takes it.
  void exchange(const std::function<void(int rank)>& send,
                const std::function<void(int rank)>& receive) const;

 private:
  std::vector<Addition> additions_within(const SlotRange& slots) const;

  Index slots_;
  Ranks* ranks_;
  int own_;
  int count_;
};

}  // namespace attn::train
