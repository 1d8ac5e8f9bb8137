#pragma once

#include <algorithm>
#include <span>

#include "pass/pass.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Shows other observers the plan π_ij + e_i d_j / Σ d, which moves the mass that π lacks: e_i of
/// row i and d_j of column j, Σ e = Σ d (Altschuler, Weed and Rigollet 2017, algorithm 2).
template <class T>
class RoundedPlan final : public Observer<T> {
 public:
  /// The spans and observers must outlive it.
  RoundedPlan(std::span<const double> row_missing, std::span<const double> col_missing,
              const ObserverList<T>& observers)
      : row_(row_missing), col_(col_missing), observers_(observers) {
    for (const double missing : col_missing) total_ += missing;
  }

  void start(const Partition& partition) override {
    for (Observer<T>* observer : observers_) observer->start(partition);
  }

  void observe(const WeightTile<T>& tile, Index slot) override {
    Buffer<T> storage(tile.range.rows * tile.range.cols);
    const MatrixView<T> plan(storage.data(), tile.range.rows, tile.range.cols);
    const double* const col = col_.data() + tile.range.col0;
    for (Index i = 0; i < tile.range.rows; ++i) {
      const double row = row_[static_cast<std::size_t>(tile.range.row0 + i)];
      const double share = total_ > 0 ? row / total_ : 0;
      for (Index j = 0; j < tile.range.cols; ++j) {
        plan(i, j) = static_cast<T>(static_cast<double>(tile.weights(i, j)) + share * col[j]);
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
  std::span<const double> row_;
  std::span<const double> col_;
  const ObserverList<T>& observers_;
  double total_ = 0;
};

}  // namespace attn
