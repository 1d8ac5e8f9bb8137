#pragma once

#include <algorithm>
#include <utility>
#include <vector>

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
  /// `dataset` is (leading…, Lq, Lk), `head` the position among the leading axes, `all` the range
  /// of a head with its padding. The weights shown are those of `own`; all others are 0. With
  /// `rows`, which must outlive this, it is shown only selected rows, and the dataset holds no
  /// others.
  WeightsWriter(io::OutputDataset dataset, Shape head, const TileRange& all, const TileRange& own,
                const RowSelection* rows = nullptr)
      : dataset_(std::move(dataset)), head_(std::move(head)), own_(own), rows_(rows) {
    write_padding(all);
  }

  bool wants_empty_tiles() const override { return true; }

  void observe(const WeightTile<T>& tile, Index) override {
    write(place(own_.row0 + tile.range.row0), own_.col0 + tile.range.col0, tile.weights);
  }

 private:
  // The row of the dataset that holds a query.
  Index place(Index query) const { return rows_ == nullptr ? query : rows_->position(query); }

  void write(Index row0, Index col0, const MatrixView<const T>& values) {
    dataset_.write(join(head_, {row0, col0}),
                   join(Shape(head_.size(), 1), {values.rows, values.cols}), values.data,
                   values.row_stride);
  }

  void write_zeros(Index row0, Index rows, Index col0, Index cols) {
    constexpr Index at_once = 64;
    const std::vector<T> zeros(static_cast<std::size_t>(std::min(rows, at_once) * cols), T{0});
    for (Index row = 0; row < rows && cols > 0; row += at_once) {
      write(row0 + row, col0, {zeros.data(), std::min(at_once, rows - row), cols});
    }
  }

  void write_padding(const TileRange& all) {
    const Index first = place(own_.row0);
    const Index last = place(own_.row0 + own_.rows);
    const Index end = own_.col0 + own_.cols;
    write_zeros(0, first, 0, all.cols);
    write_zeros(last, place(all.rows) - last, 0, all.cols);
    write_zeros(first, last - first, 0, own_.col0);
    write_zeros(first, last - first, end, all.cols - end);
  }

  io::OutputDataset dataset_;
  Shape head_;
  TileRange own_;
  const RowSelection* rows_;
};

}  // namespace attn::tools
