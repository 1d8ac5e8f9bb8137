#pragma once

#include <algorithm>

#include "pass/partition.hpp"
#include "score/scores.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Calls body(range, tile) for tiles of some queries and up to `tile_cols` keys, in the order of
/// the keys. Those with nothing allowed are left out. `tile` is memory in `storage`, as large as
/// the range. If `trimmed`, tiles end where causality and window allow nothing more, but at
/// multiples of row_tile_step.
template <class T, class Body>
void for_row_tiles(const Scores<T>& scores, RowRange queries, Index tile_cols, bool trimmed,
                   Buffer<T>& storage, const Body& body) {
  const Index keys = scores.cols();
  TileRange range{queries.first, queries.last - queries.first, 0, 0};
  storage.reserve(range.rows * std::min(tile_cols, keys));
  for (; range.col0 < keys; range.col0 += tile_cols) {
    range.cols = std::min(tile_cols, keys - range.col0);
    if (trimmed) {
      const Index used = scores.cols_in_use(range);
      range.cols = std::min(range.cols, (used + row_tile_step - 1) / row_tile_step * row_tile_step);
    }
    if (scores.empty(range)) continue;
    body(range, MatrixView<T>(storage.data(), range.rows, range.cols));
  }
}

}  // namespace attn
