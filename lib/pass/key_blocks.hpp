#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pass/output.hpp"
#include "pass/running_rows.hpp"

namespace attn {

/// Softmax of some queries whose keys come block by block, so that neither all keys nor all queries
/// need be in memory: MATHEMATICS.md §2 with g = 0. The results have the bits of run_rows over all
/// queries and keys, whatever the blocks. They begin at multiples of row_tile_cols, and the bounds
/// of their scores (Scores::Terms::bounds) are those of all queries and keys.
///
/// A first round of all blocks, in order, completes the rows. A second one, of the same blocks,
/// finds the column sums, which need complete rows.
template <class T>
class KeyBlocks {
 public:
  struct Options {
    Partition
        partition;  ///< of all queries: row_tile_partition, for column sums row_pass_partition
    Index first_slot =
        0;                ///< of those whose queries these are: at least 24, unless there are fewer
    Index last_slot = 0;  ///< one past the last
    bool entropies = false;
    double sink = no_sink;
    MatrixView<T> out = {};  ///< (own queries, dv), written; without data no output is wanted
    T largest_value = 0;     ///< the largest magnitude of all values
  };
  explicit KeyBlocks(const Options& options);

  /// The queries of the slots: scores of a block are of these and of its keys.
  RowRange queries() const { return queries_; }

  /// First round: the next block of keys, and its values if an output is wanted.
  void add(const Scores<T>& scores, MatrixView<const T> values, int threads);

  /// After the first round; does nothing if there were no keys. Writes f_i = LSE_j s_ij, −inf for a
  /// query with nothing allowed, and, if they are wanted, the entropies −Σ_j π_ij log π_ij, of the
  /// own queries.
  void complete(std::span<double> row, std::span<double> entropy);

  /// Second round: the sums Σ_i π_ij over the queries of each slot, (slots, keys of the block).
  Buffer<double> column_sums(const Scores<T>& scores, int threads);

  /// Bytes that it takes for `queries` own queries and blocks of `keys` keys.
  static std::int64_t bytes(Index queries, Index keys, Index slots, Index v_head_dim,
                            bool column_sums, int threads);

 private:
  struct Work {
    Buffer<T> tile;
    typename Scores<T>::Scratch scratch;
    PooledVector<T> factor;
  };

  /// The queries of a panel, counted from the first own one.
  RowRange own_lines(Index panel) const;
  void start(PooledVector<RunningRows<T>>& panels, bool near_zero) const;
  template <class Body>
  void for_panels(int threads, const Body& body) const;
  template <class Body>
  void for_tiles(const Scores<T>& scores, RowRange lines, Work& work, const Body& body) const;

  Options options_;
  Index first_panel_;
  Index count_;  // of panels
  RowRange queries_;
  PooledVector<RunningRows<T>> panels_;
  PooledVector<RunningRows<T>> again_;  // in the second round
  std::optional<Output<T>> output_;
};

}  // namespace attn
