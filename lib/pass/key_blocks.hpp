#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pass/line_numbers.hpp"
#include "pass/output.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Attention of some queries whose keys come block by block, so that neither all keys nor all
/// queries need be in memory: f_i = LSE_j(s_ij − g_j) for a given g, and the weights exp((s_ij −
/// g_j) − f_i). The results have the bits of a pass over all queries and keys, whatever the blocks:
/// of run_rows without a g or near zero, else of run. Blocks begin at multiples of
/// pass_tile_length, and the bounds of their scores (Scores::Terms::bounds) are those of all
/// queries and keys.
///
/// All blocks come, in order, once for each of rounds(): then the rows can be completed. If
/// shows_weights(), another round finds what needs complete rows.
template <class T>
class KeyBlocks : public FromPool {
 public:
  struct Options {
    Partition partition;    ///< of all queries: that of the pass, row_pass_partition if run_rows
                            ///< has observers that are not by_row
    Index first_slot = 0;   ///< the queries are those of these slots: at least 16, unless there are
    Index last_slot = 0;    ///< fewer
    bool near_zero = true;  ///< with a g: whether the scores are, and is_near_zero(g)
    std::span<const double> col = {};  ///< g of all keys, −inf masks one; empty: all 0
    double hybrid = 1;  ///< with a g: u of hnas, 0 < u < 1, the mixture with a softmax
    bool column_sums = false;
    bool entropies = false;
    double sink = no_sink;
    MatrixView<T> out = {};  ///< (own queries, dv), written; without data no output is wanted
    T largest_value = 0;     ///< the largest magnitude of all values
  };

  /// What `options` refer to must outlive it.
  static std::unique_ptr<KeyBlocks> make(const Options& options);
  virtual ~KeyBlocks() = default;
  KeyBlocks(const KeyBlocks&) = delete;
  KeyBlocks& operator=(const KeyBlocks&) = delete;

  /// The queries of the slots: scores of a block are of these and of its keys.
  RowRange queries() const { return queries_; }

  virtual int rounds() const = 0;

  /// The next block of a round, whose first key is number `key` of all.
  void add(int round, Index key, const Scores<T>& scores, MatrixView<const T> values, int threads);

  /// What it knows of the own queries after a block of `round`, or, if that is rounds(), of the
  /// round that shows weights: with this and the output it can go on.
  virtual std::vector<LineNumbers> state(int round) = 0;

  /// Makes room for such a state: state(round) and the output then show where its numbers belong.
  /// `scores` and `values` are those of any block. There must be at least 96 queries.
  void resume(int round, const Scores<T>& scores, MatrixView<const T> values);

  /// After the rounds; does nothing if there were no keys. Writes f of the own queries, −inf for
  /// one with nothing allowed, and for hnas that of the softmax.
  void complete(std::span<double> row, std::span<double> unas_row = {});

  virtual bool shows_weights() const = 0;

  /// The next block of the round after these. Returns the sums Σ_i π_ij over the queries of each
  /// slot, (slots, keys of the block), if they are wanted.
  Buffer<double> show(Index key, const Scores<T>& scores, MatrixView<const T> values, int threads);

  /// At the end: completes the output. Writes the entropies −Σ_j π_ij log π_ij of the own queries
  /// if they are wanted.
  void finish(std::span<double> entropy);

  struct Sizes {
    Index queries = 0;   ///< own ones
    Index slots = 0;     ///< of these
    Index panel = 0;     ///< queries of a panel
    Index keys = 0;      ///< of a block
    Index all_keys = 0;  ///< with a g, else 0
    Index v_head_dim = 0;
    bool near_zero = true;
    Index parts = 1;  ///< 2 for hnas
    bool shows_weights = false;
    bool column_sums = false;
  };
  /// Bytes that it takes.
  static std::int64_t bytes(const Sizes& sizes, int threads);

 protected:
  struct Work {
    Buffer<T> tile;
    typename Scores<T>::Scratch scratch;
    PooledVector<T> factor;
    Buffer<T> second;  ///< a tile of the second part of a mixture
  };
  /// A tile of the queries of a panel.
  struct Tile {
    const Scores<T>& scores;
    TileRange range;  ///< in these scores
    Index key;        ///< number of the first one
    Index panel;      ///< counted from the first own one
    Index slot;
    MatrixView<T> view;
  };

  /// `trimmed`: tiles end where causality and window allow nothing more.
  KeyBlocks(const Options& options, Index tile_cols, bool trimmed);

  bool is_mixture() const { return options_.hybrid != 1; }
  Index panels() const { return panels_; }
  Index own_queries() const { return queries_.last - queries_.first; }
  /// The queries of an own panel, counted from the first own one.
  RowRange own_lines(Index panel) const;

  /// Called before the first tile of a round; the last one shows weights.
  virtual void start_round(int round, const Scores<T>& scores) = 0;
  virtual void add_tile(int round, const Tile& tile, Work& work) = 0;
  /// Writes the potentials of a panel's rows; `unas_row` is null without a mixture.
  virtual void complete_panel(Index panel, double* row, double* unas_row) = 0;
  /// Fills a tile with weights, and returns null, or what its rows must still be multiplied by.
  virtual const T* fill_weights(const Tile& tile, Work& work) = 0;
  /// Whether the output is made of these weights, and not by add_tile.
  virtual bool gathers_weights() const = 0;

  const Options options_;
  std::optional<Output<T>> output_;
  PooledVector<double> entropy_;

 private:
  template <class Body>
  void for_tiles(Index key, const Scores<T>& scores, int threads, const Body& body) const;
  void take_values(MatrixView<const T> values, bool begins = true);
  // A softmax has them from its first round.
  bool sums_entropies() const { return options_.entropies && !options_.col.empty(); }

  RowRange queries_;
  Index first_panel_;
  Index panels_;
  Index tile_cols_;
  bool trimmed_;
  int next_round_ = 0;  // to be started
};

}  // namespace attn
