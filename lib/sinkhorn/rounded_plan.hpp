#pragma once

#include <algorithm>

#include "pass/pass.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// A plan on its way to its marginals: x_i π_ij y_j, which exceeds no marginal, and the masses e_i
/// and d_j that row i and column j lack, Σ e = Σ d. The factors are not part of the potentials of
/// π, which round like scores over ε.
struct PlanRounding {
  PooledVector<double> row_factor, col_factor;    ///< x, y
  PooledVector<double> row_missing, col_missing;  ///< e, d
};

/// Shows other observers the plan x_i π_ij y_j + e_i d_j / Σ d (Altschuler, Weed and Rigollet 2017,
/// algorithm 2), or x_i π_ij y_j alone if e and d are empty.
template <class T>
class RoundedPlan final : public Observer<T> {
 public:
  /// Both arguments must outlive the observer.
  RoundedPlan(const PlanRounding& rounding, const ObserverList<T>& observers)
      : rounding_(rounding), observers_(observers) {
    for (const double missing : rounding.col_missing) total_ += missing;
  }

  void start(const Partition& partition) override {
    for (Observer<T>* observer : observers_) observer->start(partition);
  }

  void observe(const WeightTile<T>& tile, Index slot) override {
    Buffer<T> storage(tile.range.rows * tile.range.cols);
    const MatrixView<T> plan(storage.data(), tile.range.rows, tile.range.cols);
    const double* const by_col = rounding_.col_factor.data() + tile.range.col0;
    const double* const missing = rounding_.col_missing.data() + (total_ > 0 ? tile.range.col0 : 0);
    for (Index i = 0; i < tile.range.rows; ++i) {
      const auto row = static_cast<std::size_t>(tile.range.row0 + i);
      const double by_row = rounding_.row_factor[row];
      const double share = total_ > 0 ? rounding_.row_missing[row] / total_ : 0;
      for (Index j = 0; j < tile.range.cols; ++j) {
        const double kept = by_row * static_cast<double>(tile.weights(i, j)) * by_col[j];
        plan(i, j) = static_cast<T>(share > 0 ? kept + share * missing[j] : kept);
      }
    }
    for (Observer<T>* observer : observers_) observer->observe({tile.range, plan}, slot);
  }

  bool wants_empty_tiles() const override { return true; }
  bool can_share() const override {
    return std::all_of(observers_.begin(), observers_.end(),
                       [](const Observer<T>* observer) { return observer->can_share(); });
  }
  void share(const SlotShare& share) override {
    for (Observer<T>* observer : observers_) observer->share(share);
  }
  void finish() override {
    for (Observer<T>* observer : observers_) observer->finish();
  }

 private:
  const PlanRounding& rounding_;
  const ObserverList<T>& observers_;
  double total_ = 0;
};

}  // namespace attn
