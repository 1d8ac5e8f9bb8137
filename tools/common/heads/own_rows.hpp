#pragma once

#include <algorithm>
#include <utility>

#include "tensor/view.hpp"

namespace attn::tools {

/// Extends results of a problem's own queries or keys, `width` numbers each, to all `total` queries
/// or keys. The own ones begin at `first`; all others are padding and get the value `padding`.
template <class Values, class T>
void spread_rows(Values& values, Index first, Index total, Index width, T padding) {
  const Index size = total * width;
  if (static_cast<Index>(values.size()) == size) return;
  Values all(static_cast<decltype(values.size())>(size));
  std::fill(all.begin(), all.end(), padding);
  std::copy(values.begin(), values.end(), all.begin() + first * width);
  values = std::move(all);
}

/// The same for the pairs of a problem: `own` of `all`, row by row. Padding gets 0.
template <class Values>
void spread_pairs(Values& values, const TileRange& own, const TileRange& all) {
  const Index size = all.rows * all.cols;
  if (static_cast<Index>(values.size()) == size) return;
  Values spread(static_cast<decltype(values.size())>(size));
  std::fill(spread.begin(), spread.end(), 0);
  for (Index i = 0; i < own.rows; ++i) {
    std::copy_n(values.begin() + i * own.cols, own.cols,
                spread.begin() + (own.row0 + i) * all.cols + own.col0);
  }
  values = std::move(spread);
}

}  // namespace attn::tools
