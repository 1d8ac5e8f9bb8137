#pragma once

#include "io/output.hpp"
#include "pass/pass.hpp"

namespace attn::tools {

/// Chunk shape of a weights dataset: as wide as a pass's tiles, and of about as many rows, so that
/// the chunk cache completes each chunk. Smaller if much of it would be padding, since the file
/// holds whole chunks.
Shape weights_chunk(Index queries, Index keys);

/// Elements that one head's weights take in the file, including padding, without compression.
double weights_elements(Index queries, Index keys);

/// Writes the weights of one head by tiles as a pass shows them, with zeros for forbidden pairs.
template <class T>
class WeightsWriter final : public Observer<T> {
 public:
  /// `dataset` is (leading…, Lq, Lk), `head` the position among the leading axes. With `rows`,
  /// which must outlive this, it is shown only the selected rows, which are all that the dataset
  /// holds.
  WeightsWriter(io::OutputDataset dataset, Shape head, const RowSelection* rows = nullptr)
      : dataset_(std::move(dataset)), head_(std::move(head)), rows_(rows) {}

  bool wants_empty_tiles() const override { return true; }

  void observe(const WeightTile<T>& tile, Index) override {
    const Index row0 = rows_ == nullptr ? tile.range.row0 : rows_->position(tile.range.row0);
    dataset_.write(join(head_, {row0, tile.range.col0}),
                   join(Shape(head_.size(), 1), {tile.range.rows, tile.range.cols}),
                   tile.weights.data, tile.weights.row_stride);
  }

 private:
  io::OutputDataset dataset_;
  Shape head_;
  const RowSelection* rows_;
};

}  // namespace attn::tools
