#pragma once

#include <algorithm>

#include "parallel/in_order.hpp"
#include "pass/slot_share.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Takes a gradient with respect to an Lq × Lk matrix (the scores, the energies) tile by tile, and
/// computes from it the gradient of the matrix's inputs: the adjoint of a source of tiles.
///
/// Tiles come by *slots*, which have no column in common, in a fixed order within a slot. Several
/// *lanes*, one thread each, take one slot at a time. Sums by column may therefore be updated in
/// place; sums by row need a copy per lane, which `merge` adds to the total after each slot. Tiles
/// that are not shown are zeros.
template <class T>
class GradientSink : public FromPool {
 public:
  virtual ~GradientSink() = default;

  /// Called before the first tile; sums start at zero.
  virtual void start(Index lanes) = 0;

  virtual void add(const TileRange& range, MatrixView<const T> gradient, Index lane) = 0;

  /// Adds part of a lane's sums to the totals; the last part empties the lane. The parts of a lane
  /// come in order, and each part in the order of the slots, on one thread at a time.
  virtual void merge(Index lane, SumPart part) = 0;

  /// True: the slots may be divided among ranks, by the two functions below.
  virtual bool can_share() const { return false; }

  /// Visits the memory of the totals that `merge` adds to.
  virtual void visit_totals(const RankShare::Visit& visit) { static_cast<void>(visit); }

  /// Completes sums by column from the slots of other ranks; called before `finish`.
  virtual void share(const SlotShare& share) { static_cast<void>(share); }

  /// Called after the last tile, on one thread.
  virtual void finish() {}
};

/// Sums of `size` numbers to which several lanes add at once.
template <class T>
class LaneSums {
 public:
  LaneSums() = default;
  LaneSums(Index size, Index lanes) : size_(size), lanes_(static_cast<std::size_t>(lanes)) {}

  /// The sum of one lane, zeros at first.
  T* lane(Index lane) {
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    if (!own.used) {
      own.values.reserve(size_);
      std::fill_n(own.values.data(), size_, T{0});
      own.used = true;
    }
    return own.values.data();
  }

  /// total += part of the sum of a lane; the last part resets it to zeros.
  void merge(Index lane, T* total, SumPart part) {
    Lane& own = lanes_[static_cast<std::size_t>(lane)];
    if (!own.used) return;
    const Index last = part.last(size_);
    for (Index at = part.first(size_); at < last; ++at) total[at] += own.values[at];
    if (part.is_last()) own.used = false;
  }

 private:
  struct Lane {
    Buffer<T> values;
    bool used = false;
  };
  Index size_ = 0;
  PooledVector<Lane> lanes_;
};

}  // namespace attn
