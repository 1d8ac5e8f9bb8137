#pragma once

#include <cstdint>

#include "pass/column_sums.hpp"
#include "pass/pass.hpp"
#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Sums over a plan, gathered from row panels: r_i = Σ_j π_ij, c_j = Σ_i π_ij and Σ_ij π_ij s_ij,
/// for which scores are computed again. Kept in float64, with the relative error of the weights
/// and, for the last sum, of the scores.
template <class T>
class PlanSums final : public Observer<T> {
 public:
  /// `scores` must outlive the observer.
  explicit PlanSums(const Scores<T>& scores) : scores_(scores) {}

  void start(const Partition& partition) override;
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override;
  void finish() override;

  /// (Lq), (Lk); valid after the pass.
  const PooledVector<double>& rows() const { return rows_; }
  const PooledVector<double>& cols() const { return cols_.values(); }
  double score() const { return score_; }

  /// Bytes held during a pass with this partition.
  static std::int64_t bytes(const Partition& partition, int threads);

 private:
  const Scores<T>& scores_;
  ColumnSums<T> cols_;
  PooledVector<T> ones_;
  PooledVector<double> rows_;
  PooledVector<double> row_scores_;
  double score_ = 0;
};

}  // namespace attn
