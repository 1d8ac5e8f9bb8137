#pragma once

#include <limits>
#include <vector>

#include "score/scores.hpp"

namespace attn::testing {

/// The scores of a tile.
template <class T>
std::vector<T> score_values(const Scores<T>& scores, const TileRange& range) {
  typename Scores<T>::Scratch scratch;
  std::vector<T> out(static_cast<std::size_t>(range.rows * range.cols),
                     std::numeric_limits<T>::quiet_NaN());
  scores.fill(range, {out.data(), range.rows, range.cols}, scratch);
  return out;
}

/// All scores.
template <class T>
std::vector<T> score_values(const Scores<T>& scores) {
  return score_values(scores, {0, scores.rows(), 0, scores.cols()});
}

}  // namespace attn::testing
