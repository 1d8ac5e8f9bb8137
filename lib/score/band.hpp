#pragma once

#include <optional>

#include "score/allowed_counts.hpp"
#include "attnkit/causal.hpp"
#include "tensor/view.hpp"

namespace attn {

/// What causality, a window and padding leave of the Lq × Lk pairs: for each query one run of keys,
/// whose two ends never move back from one query to the next. With p_i = i + first_position:
///
///   causal        j <= p_i
///   window W      |p_i − j| < W, W >= 1 (1 leaves the key at the query's own position)
///   key_length n  j < n, 0 <= n <= Lk: the keys behind are padding. Positions are counted with it.
class Band {
 public:
  /// Throws Error(input) where the window or the length are not as above.
  Band(Index rows, Index cols, Causal causal, std::optional<Index> window,
       std::optional<Index> key_length);

  /// The keys [begin, end) of query `row`; 0 <= begin <= end <= Lk.
  Index begin(Index row) const;
  Index end(Index row) const;

  /// Whether no pair of `range` is left. Exact, and O(1).
  bool empty(const TileRange& range) const;

  /// Whether every pair of `range` is left. Exact, and O(1).
  bool full(const TileRange& range) const;

  /// How many of the columns of `range` come before those of which no pair is left; of an empty
  /// range any number. O(1).
  Index cols_in_use(const TileRange& range) const;

  /// Whether every pair is left.
  bool whole() const { return whole_; }

  /// Counts of the pairs left, in O(Lq + Lk).
  AllowedCounts allowed_counts() const;

 private:
  Index rows_;
  Index keys_;         // that are no padding
  Index cols_;         // padding included
  Index first_;        // position of query 0
  Index ahead_;        // keys j < p_i + ahead
  Index behind_;       // keys j > p_i − behind
  bool whole_ = true;  // nothing is forbidden
};

}  // namespace attn
