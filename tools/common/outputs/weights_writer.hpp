#pragma once

#include <utility>

#include "common/outputs/pair_writer.hpp"
#include "pass/pass.hpp"

namespace attn::tools {

/// Writes the weights of one head by tiles as a pass shows them, with zeros for forbidden pairs and
/// padding.
template <class T>
class WeightsWriter final : public Observer<T> {
 public:
  /// The arguments of PairWriter. With `rows`, the pass shows only selected rows.
  WeightsWriter(io::OutputDataset dataset, const Shape& head, const TileRange& all,
                const TileRange& own, const RowSelection* rows = nullptr)
      : pairs_(std::move(dataset), head, all, own, T{0}, rows) {}

  bool wants_empty_tiles() const override { return true; }

  void observe(const WeightTile<T>& tile, Index) override {
    pairs_.write(tile.range.row0, tile.range.col0, tile.weights);
  }

 private:
  PairWriter<T> pairs_;
};

}  // namespace attn::tools
