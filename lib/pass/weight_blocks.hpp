#pragma once

#include <optional>
#include <span>

#include "pass/output.hpp"

namespace attn {

/// The output of some queries under known potentials, whose keys come block by block, so that
/// neither all keys nor all queries need be in memory. It has the bits that show_weights finds of
/// all queries and keys, whatever the blocks. They come in order, begin at multiples of
/// pass_tile_length, and the bounds of their scores (Scores::Terms::bounds) are those of all
/// queries and keys.
template <class T>
class WeightBlocks {
 public:
  /// `f` are the potentials of the queries, `out` (own queries, dv) is written; at least 24, unless
  /// there are fewer. `largest_value` is the largest magnitude of all values.
  WeightBlocks(std::span<const double> f, MatrixView<T> out, T largest_value);

  /// The next keys, with their values and potentials.
  void add(const Scores<T>& scores, MatrixView<const T> values, std::span<const double> g,
           int threads);

  /// After the last block.
  void finish();

 private:
  PooledVector<double> f_;  // as subtracted
  MatrixView<T> out_;
  T largest_value_;
  Partition partition_;
  std::optional<Output<T>> output_;
};

}  // namespace attn
