#pragma once

#include "pass/pass.hpp"

namespace attn {

/// Shows `observer` the chosen rows of a tile, neighbouring ones together.
template <class T>
void show_chosen(const RowSelection& rows, const WeightTile<T>& tile, Index slot,
                 Observer<T>& observer) {
  const TileRange& range = tile.range;
  for (const RowRange& part : rows.within({range.row0, range.row0 + range.rows})) {
    const Index count = part.last - part.first;
    observer.observe({{part.first, count, range.col0, range.cols},
                      tile.weights.row_range(part.first - range.row0, count)},
                     slot);
  }
}

/// Passes the weights of some queries on to another observer, if a pass over all queries writes
/// only some. Both arguments must outlive it.
template <class T>
class SelectedRows final : public Observer<T> {
 public:
  SelectedRows(const RowSelection& rows, Observer<T>& observer)
      : rows_(rows), observer_(observer) {}

  void start(const Partition& partition) override { observer_.start(partition); }
  void observe(const WeightTile<T>& tile, Index slot) override {
    show_chosen(rows_, tile, slot, observer_);
  }
  bool wants_empty_tiles() const override { return observer_.wants_empty_tiles(); }
  void finish() override { observer_.finish(); }

 private:
  const RowSelection& rows_;
  Observer<T>& observer_;
};

}  // namespace attn
