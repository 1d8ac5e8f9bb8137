#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "io/output.hpp"
#include "pass/row_selection.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn::tools {

/// Chunk shape of a dataset (…, Lq, Lk), with a number for each query and key: as wide and about as
/// high as the tiles that are written, by default a pass's, so that the chunk cache completes each
/// chunk. Smaller if much of it would be padding, since the file holds whole chunks.
Shape pairs_chunk(Index queries, Index keys, Index tile_queries = 64, Index tile_keys = 256);

/// Elements that one head's pairs take in the file, including padding, without compression.
double pairs_elements(Index queries, Index keys, const Shape& chunk);
double pairs_elements(Index queries, Index keys);

/// Writes a number for each query and key of one head, by tiles. Any thread may write.
template <class T>
class PairWriter {
 public:
  /// `dataset` is (leading…, Lq, Lk), `head` the position among the leading axes, and `all` the
  /// range of a head with its padding; the constructor fills the padding with `padding`. Tiles lie
  /// in `own`. With `rows`, which must outlive the object, only tiles of selected rows may be
  /// written, and the dataset holds no others.
  PairWriter(io::OutputDataset dataset, const Shape& head, const TileRange& all,
             const TileRange& own, T padding, const RowSelection* rows = nullptr)
      : dataset_(std::move(dataset)), head_(head), own_(own), rows_(rows) {
    write_padding(all, padding);
  }

  /// Writes the tile at `row0` and `col0` of the own queries and keys.
  void write(Index row0, Index col0, const MatrixView<const T>& values) {
    put(place(own_.row0 + row0), own_.col0 + col0, values);
  }

 private:
  // The row of the dataset that holds a query.
  Index place(Index query) const { return rows_ == nullptr ? query : rows_->position(query); }

  void put(Index row0, Index col0, const MatrixView<const T>& values) {
    dataset_.write(join(head_, {row0, col0}),
                   join(Shape(head_.size(), 1), {values.rows, values.cols}), values.data,
                   values.row_stride);
  }

  void fill(Index row0, Index rows, Index col0, Index cols, T value) {
    constexpr Index at_once = 64;
    const std::vector<T> values(static_cast<std::size_t>(std::min(rows, at_once) * cols), value);
    for (Index row = 0; row < rows && cols > 0; row += at_once) {
      put(row0 + row, col0, {values.data(), std::min(at_once, rows - row), cols});
    }
  }

  void write_padding(const TileRange& all, T value) {
    const Index first = place(own_.row0);
    const Index last = place(own_.row0 + own_.rows);
    const Index end = own_.col0 + own_.cols;
    fill(0, first, 0, all.cols, value);
    fill(last, place(all.rows) - last, 0, all.cols, value);
    fill(first, last - first, 0, own_.col0, value);
    fill(first, last - first, end, all.cols - end, value);
  }

  io::OutputDataset dataset_;
  Shape head_;
  TileRange own_;
  const RowSelection* rows_;
};

}  // namespace attn::tools
