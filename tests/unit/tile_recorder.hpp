#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "pass/pass.hpp"
#include "reference/reference.hpp"

namespace attn::testing {

/// Writes down which tiles it is shown, in which order, and their weights.
template <class T>
class TileRecorder final : public Observer<T> {
 public:
  explicit TileRecorder(bool wants_empty) : wants_empty_(wants_empty) {}

  void start(const Partition& partition) override {
    const auto size = static_cast<std::size_t>(partition.rows * partition.cols);
    partition_ = partition;
    tiles_.assign(static_cast<std::size_t>(partition.slots), {});
    shown_.assign(size, 0);
    weights_.assign(size, T{0});
    started_ += 1;
    finished_ = 0;
  }
  void observe(const WeightTile<T>& tile, Index slot) override {
    tiles_[static_cast<std::size_t>(slot)].push_back(tile.range);
    for (Index i = 0; i < tile.range.rows; ++i) {
      for (Index j = 0; j < tile.range.cols; ++j) {
        const Index at = (tile.range.row0 + i) * partition_.cols + tile.range.col0 + j;
        shown_[static_cast<std::size_t>(at)] += 1;
        weights_[static_cast<std::size_t>(at)] = tile.weights(i, j);
      }
    }
  }
  bool wants_empty_tiles() const override { return wants_empty_; }
  void finish() override { finished_ += 1; }

  const std::vector<T>& weights() const { return weights_; }
  const Partition& partition() const { return partition_; }
  bool started_and_finished_once() const { return started_ == 1 && finished_ == 1; }

  /// Every pair that `scores` allow was shown exactly once, and no pair twice; with `all`, the
  /// forbidden ones were shown, too.
  bool saw_each_once(const reference::Matrix& scores, bool all) const {
    for (std::size_t n = 0; n < shown_.size(); ++n) {
      const bool allowed = scores.values[n] != -std::numeric_limits<long double>::infinity();
      if (shown_[n] > 1 || ((allowed || all) && shown_[n] != 1)) return false;
    }
    return shown_.size() == scores.values.size();
  }

  /// Within a slot the panels came in their order, within a panel the tiles along the other axis;
  /// each panel in its slot, each tile with all lines of its panel.
  bool in_promised_order() const {
    const bool by_row = partition_.order == Order::row_panels;
    const Index lines = by_row ? partition_.rows : partition_.cols;
    for (std::size_t slot = 0; slot < tiles_.size(); ++slot) {
      std::pair<Index, Index> before{-1, 0};
      for (const TileRange& tile : tiles_[slot]) {
        const Index first = by_row ? tile.row0 : tile.col0;
        const Index panel = first / partition_.panel;
        const std::pair<Index, Index> at{panel, by_row ? tile.col0 : tile.row0};
        const bool whole =
            first % partition_.panel == 0 &&
            (by_row ? tile.rows : tile.cols) == std::min(partition_.panel, lines - first);
        const auto s = static_cast<Index>(slot);
        if (!(before < at) || !whole || panel < partition_.first_panel(s) ||
            panel >= partition_.first_panel(s + 1)) {
          return false;
        }
        before = at;
      }
    }
    return true;
  }

 private:
  bool wants_empty_;
  Partition partition_;
  std::vector<std::vector<TileRange>> tiles_;  // per slot
  std::vector<unsigned char> shown_;
  std::vector<T> weights_;
  int started_ = 0;
  int finished_ = 0;
};

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

}  // namespace attn::testing
