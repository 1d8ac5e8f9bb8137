#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pass/output.hpp"

namespace attn {

/// Known potentials of some queries: with g of the keys, the weights exp((s − g) − f), or the
/// mixture u·exp((s − g) − f) + (1 − u)·exp(s − unas_f) of hnas.
struct QueryPotentials {
  std::span<const double> f;
  std::span<const double> unas_f = {};  ///< empty: there is no second part
  double hybrid = 1;                    ///< u
};

/// The output of some queries under known potentials, whose keys come block by block, so that
/// neither all keys nor all queries need be in memory. It has the bits that show_weights finds of
/// all queries and keys, whatever the blocks. They come in order, begin at multiples of
/// pass_tile_length, and the bounds of their scores (Scores::Terms::bounds) are those of all
/// queries and keys.
template <class T>
class WeightBlocks {
 public:
  /// `out` (own queries, dv) is written; at least 16, unless there are fewer. `largest_value` is
  /// the largest magnitude of all values. Unless it begins, `out` is what it was after a block.
  WeightBlocks(const QueryPotentials& queries, MatrixView<T> out, T largest_value,
               bool begins = true);

  /// The next keys, with their values and potentials g; without these they are 0.
  void add(const Scores<T>& scores, MatrixView<const T> values, std::span<const double> g,
           int threads);

  /// After the last block.
  void finish();

  /// Bytes that it takes, with blocks of `keys` keys.
  static std::int64_t bytes(Index queries, Index keys, Index v_head_dim, bool mixture, int threads);

 private:
  struct Work {
    Buffer<T> tile, second;
    typename Scores<T>::Scratch scratch;
  };

  bool is_mixture() const { return !unas_f_.empty(); }
  void fill(const Scores<T>& scores, const TileRange& range, std::span<const double> g,
            MatrixView<T> tile, Work& work) const;

  PooledVector<double> f_, unas_f_;  // as subtracted
  double hybrid_;
  MatrixView<T> out_;
  T largest_value_;
  bool begins_;
  Partition partition_;
  std::optional<Output<T>> output_;
};

}  // namespace attn
