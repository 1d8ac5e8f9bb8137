#pragma once

#include <cstdint>
#include <span>

#include "pass/column_slots.hpp"
#include "pass/pass.hpp"
#include "score/matrix_source.hpp"

namespace attn {

/// Products of a plan with given G, x and y, gathered from row panels,
///
///   rows_i = Σ_j π_ij (G_ij + y_j),   cols_j = Σ_i π_ij (G_ij + x_i),
///
/// kept in float64. The relative error of each term is the error of the weights, plus a rounding of
/// T with G.
template <class T>
class PlanProducts final : public Observer<T> {
 public:
  /// x (Lq) and y (Lk), finite; empty: 0. G (Lq, Lk), finite; null: 0. All must outlive the
  /// observer.
  PlanProducts(std::span<const double> x, std::span<const double> y,
               const MatrixSource<T>* g = nullptr)
      : x_(x), y_(y), g_(g) {}

  void start(const Partition& partition) override;
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override;
  void finish() override { cols_.finish(); }

  /// (Lq), (Lk); valid after the pass.
  const PooledVector<double>& rows() const { return rows_; }
  const PooledVector<double>& cols() const { return cols_.values(); }

  /// Bytes held during a pass with this partition.
  static std::int64_t bytes(const Partition& partition, int threads);

 private:
  std::span<const double> x_, y_;
  const MatrixSource<T>* g_;
  PooledVector<double> rows_;
  ColumnSlots cols_;
};

}  // namespace attn
