#pragma once

#include <cstdint>
#include <vector>

#include "pass/pass.hpp"

namespace attn {

/// c_j = Σ_i π_ij, what key j is attended with in all: TN's fertility, what DN Lemma 1 and EA Def.
/// 1 speak of. Kept in float64; relative error that of the weights.
template <class T>
class ColumnSums final : public Observer<T> {
 public:
  void start(const Partition& partition) override;
  bool takes_row_factor() const override { return true; }
  void observe(const WeightTile<T>& tile, Index slot) override;
  void finish() override;

  /// (Lk); keys that are attended to nowhere have 0. Valid after the pass.
  const std::vector<double>& values() const { return sums_; }

  /// Bytes while a pass of that shape runs.
  static std::int64_t bytes(const Partition& partition);

 private:
  bool by_column_ = false;  // column panels: each column belongs to one slot
  std::vector<std::vector<double>> slots_;
  std::vector<double> sums_;
};

}  // namespace attn
