#pragma once

#include <cstdint>
#include <span>

#include "pass/slot_share.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Sums by column, in float64, that an observer of row panels gathers: one for each slot, added up
/// in order.
class ColumnSlots {
 public:
  void start(const Partition& partition) {
    sums_.assign(static_cast<std::size_t>(partition.cols), 0.0);
    slots_.clear();
    slots_.resize(static_cast<std::size_t>(partition.slots));
  }

  /// The sums of a slot (Lk), zeros at first.
  std::span<double> of(Index slot) {
    PooledVector<double>& sums = slots_[static_cast<std::size_t>(slot)];
    if (sums.empty()) sums.assign(sums_.size(), 0.0);
    return sums;
  }

  void share(const SlotShare& share) {
    share.complete_slots([&](Index slot, const RankShare::Visit& visit) {
      visit(std::as_writable_bytes(of(slot)));
    });
  }

  void finish() {
    for (auto& slot : slots_) {
      for (std::size_t j = 0; j < slot.size(); ++j) sums_[j] += slot[j];
    }
    slots_.clear();
  }

  /// (Lk); valid after `finish`.
  const PooledVector<double>& values() const { return sums_; }
  PooledVector<double>& values() { return sums_; }

  /// Bytes held during a pass with this partition.
  static std::int64_t bytes(const Partition& partition) {
    return (1 + partition.slots) * partition.cols * static_cast<Index>(sizeof(double));
  }

 private:
  PooledVector<PooledVector<double>> slots_;
  PooledVector<double> sums_;
};

}  // namespace attn
