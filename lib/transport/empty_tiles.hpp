#pragma once

#include <algorithm>

#include "pass/partition.hpp"
#include "score/scores.hpp"

namespace attn {

/// Calls use(tile) for the tiles without an allowed pair, which sinks of derivatives by pairs do
/// not see (GradientSink).
template <class T, class Use>
void for_empty_tiles(const Scores<T>& scores, const Use& use) {
  const Index rows = scores.rows();
  const Partition partition = gradient_partition(rows, scores.cols(), sizeof(T), false);
  for (Index p = 0; p < partition.panels; ++p) {
    const RowRange keys = partition.lines(p);
    for (Index row0 = 0; row0 < rows; row0 += gradient_tile_rows) {
      const TileRange tile{row0, std::min(gradient_tile_rows, rows - row0), keys.first,
                           keys.last - keys.first};
      if (scores.empty(tile)) use(tile);
    }
  }
}

}  // namespace attn
