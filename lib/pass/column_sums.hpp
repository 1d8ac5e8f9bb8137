#pragma once

#include <cstdint>

#include "pass/column_slots.hpp"
#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// c_j = Σ_i π_ij, the total weight that key j receives: TN's fertility, the subject of DN Lemma 1
/// and EA Def. 1. Kept in float64, with the relative error of the weights.
template <class T>
class ColumnSums final : public Observer<T> {
 public:
  void start(const Partition& partition) override;
  bool takes_row_factor() const override { return true; }
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override;
  void finish() override;

  /// (Lk); 0 for keys that no query attends to. Valid after the pass.
  const PooledVector<double>& values() const { return sums_.values(); }

  /// Bytes held during a pass with this partition.
  static std::int64_t bytes(const Partition& partition);

 private:
  bool by_column_ = false;  // column panels: each column belongs to one slot
  ColumnSlots sums_;
};

}  // namespace attn
