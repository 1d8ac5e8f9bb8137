#pragma once

#include <span>

#include "pass/column_sums.hpp"
#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// A number per query, gathered from row panels only. Kept in float64.
template <class T>
class RowObserver : public Observer<T> {
 public:
  void start(const Partition& partition) final;
  bool can_share() const final { return true; }
  void share(const SlotShare& share) final { share.complete_lines(std::span<double>(values_)); }

  /// (Lq); queries with nothing allowed have 0. Valid after the pass.
  const PooledVector<double>& values() const { return values_; }

 protected:
  PooledVector<double> values_;
};

/// Σ_j π_ij, which is 1 for valid weights (0 for a query with nothing allowed): a check of weights
/// that come from elsewhere.
template <class T>
class RowSums final : public RowObserver<T> {
 public:
  void observe(const WeightTile<T>& tile, Index slot) override;
};

/// H_i = −Σ_j π_ij log π_ij in nats, 0 log 0 = 0; never below 0, and at most the log of the number
/// of allowed keys if rows sum to 1. Absolute error: a few roundings of T of 1 + H_i, and of the
/// row's largest |s_ij| where Scores::near_zero.
template <class T>
class RowEntropy final : public RowObserver<T> {
 public:
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool takes_row_entropies() const override { return true; }
  void row_entropies(Index first, Index count, const double* entropies) override;
  void finish() override;
};

}  // namespace attn
