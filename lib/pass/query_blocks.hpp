#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pass/line_numbers.hpp"
#include "pass/output.hpp"
#include "pass/pass.hpp"
#include "pass/scaled_sums.hpp"

namespace attn {

/// dnas or hnas of some keys whose queries come block by block, so that neither all keys nor all
/// queries need be in memory. The results have the bits of one_pass_columns or one_pass_hybrid over
/// all queries and keys, whatever the blocks. They begin at multiples of pass_tile_length and have
/// at least 16 queries, unless there are fewer; the bounds of their scores (Scores::Terms::bounds)
/// are those of all queries and keys.
///
/// All blocks come, in order, once for each of column_rounds(): then g is complete. Another round
/// finds the row sums and the output.
template <class T>
class QueryBlocks {
 public:
  struct Options {
    Partition partition;   ///< of all keys: one_pass_columns_partition
    Index first_slot = 0;  ///< of those whose keys these are
    Index last_slot = 0;   ///< one past the last
    T largest_value = 0;   ///< the largest magnitude of all values
    double sink = no_sink;
    double hybrid = 1;  ///< u, 0 < u < 1, of hnas
  };
  explicit QueryBlocks(const Options& options);

  /// The keys that the scores of a block must have: those of the slots, and a few before them, so
  /// that tiles begin where those of all keys do.
  RowRange keys() const { return keys_; }
  RowRange own_keys() const { return own_; }  ///< those of the slots alone

  /// Known after the first block; 1 without any.
  int column_rounds() const { return near_zero_ ? 1 : 2; }

  /// The next block of round 0, or of round 1.
  void add(int round, const Scores<T>& scores, int threads);

  /// After the last block of a round.
  void end_round(int round);

  /// After the rounds: writes g_j = LSE_i s_ij of the own keys, −inf where nothing is allowed.
  void complete_columns(std::span<double> col);

  /// What it knows of the own keys after a block of a round, or, if g is complete, after them: with
  /// that it can go on.
  std::vector<LineNumbers> state(bool complete);

  /// Makes room for such a state, to which state(complete) then refers. `scores` are those of any
  /// block.
  void resume(bool complete, const Scores<T>& scores);

  /// The sums of a block of queries over keys.
  class Sums {
   public:
    /// Over no keys. `out` (queries, dv) is written, and without data not wanted.
    Sums(const QueryBlocks& blocks, Index queries, MatrixView<T> out);

    /// Calls visit for the memory of the sums.
    void visit(const std::function<void(std::span<std::byte> bytes)>& visit);

   private:
    friend class QueryBlocks;
    // What belongs to dnas, or in hnas to the softmax.
    struct Part {
      ScaledSums total;   // Σ_j exp(s_ij − g_j), or Σ_j exp(s_ij)
      MatrixView<T> out;  // with v_j, up to a power of two
      PooledVector<ScaledSums> of_slots = {};
    };
    Index queries_;
    Buffer<T> second_out_;
    PooledVector<Part> parts_;
    std::optional<Output<T>> output_;
  };

  /// Computes the sums of each slot. `values` are those of keys().
  void gather(const Scores<T>& scores, MatrixView<const T> values, Sums& block, int threads) const;

  /// Adds them, in the order of the slots, to the totals, which are those of the slots before.
  void add(Sums& block) const;

  /// When the totals are those of all keys: writes f_i = log of the sum, joined by the sink, for
  /// hnas also that of the softmax, and divides the output. Returns the queries with a sum too
  /// small for that (see one_pass_columns and one_pass_hybrid), in ascending order; they have f_i =
  /// −inf and an output of 0.
  PooledVector<Index> complete_rows(Sums& block, std::span<double> row,
                                    std::span<double> unas_row = {}) const;

  struct Sizes {
    Index queries = 0;  ///< of a block
    Index keys = 0;     ///< own ones
    Index panel = 0;    ///< keys of a panel
    Index slots = 0;    ///< of the own keys; 0 if only g is wanted
    Index parts = 1;    ///< 2 for hnas
    Index v_head_dim = 0;
  };
  /// Bytes that it takes, sums of a block included.
  static std::int64_t bytes(const Sizes& sizes, int threads);

 private:
  struct Work {
    Buffer<T> panel;
    typename Scores<T>::Scratch scratch;
    PooledVector<double> unas_factor;
    PooledVector<T> rescale;
    PooledVector<double> unused;  // sums of columns
  };

  template <class Body>
  void for_panels(int threads, const Body& body) const;
  template <class Body>
  void for_tiles(const Scores<T>& scores, RowRange lines, Work& work, const Body& body) const;
  Index parts() const { return options_.hybrid == 1 ? 1 : 2; }
  double coefficient(std::size_t part) const {
    return part == 0 ? options_.hybrid : 1 - options_.hybrid;
  }
  Index place_of(Index slot, std::size_t part) const {
    return 1 + slot * parts() + static_cast<Index>(part);
  }
  void find_unas_factors(Index slot, RowRange keys, Sums& block, Work& work) const;
  void fill(const Scores<T>& scores, RowRange keys, const TileRange& range, MatrixView<T> tile,
            Work& work) const;
  std::size_t place(Index key) const { return static_cast<std::size_t>(key - own_.first); }

  Options options_;
  RowRange own_;
  RowRange keys_;
  bool near_zero_ = true;        // until scores are seen
  PooledVector<double> shift_;   // m_j of the own keys
  PooledVector<double> sum_;     // Σ_i exp(s_ij − m_j)
  PooledVector<double> factor_;  // 1 / sum
};

}  // namespace attn
