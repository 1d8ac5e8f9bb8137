#pragma once

#include <optional>

#include "attnkit/causal.hpp"
#include "score/allowed_counts.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The Lq × Lk pairs that causality, a window and padding allow: for each query one run of keys,
/// neither end of which ever moves back from one query to the next. With p_i = i + first_position:
///
///   causal        j <= p_i
///   window W      |p_i − j| < W, W >= 1 (1 leaves the key at the query's own position)
///   key_length n  j < n, 0 <= n <= Lk: keys at index >= n are padding. They count for positions.
class Band {
 public:
  /// Throws Error(input) if the window or the length is not as above.
  Band(Index rows, Index cols, Causal causal, std::optional<Index> window,
       std::optional<Index> key_length);

  /// The keys [begin, end) of query `row`; 0 <= begin <= end <= Lk.
  Index begin(Index row) const;
  Index end(Index row) const;

  /// Whether no pair of `range` is allowed. Exact, and O(1).
  bool empty(const TileRange& range) const;

  /// Whether every pair of `range` is allowed. Exact, and O(1).
  bool full(const TileRange& range) const;

  /// The number of columns of `range` up to the last one with an allowed pair; any number for an
  /// empty range. O(1).
  Index cols_in_use(const TileRange& range) const;

  /// Whether every pair is allowed.
  bool whole() const { return whole_; }

  /// Counts of the allowed pairs, in O(Lq + Lk).
  AllowedCounts allowed_counts() const;

 private:
  Index rows_;
  Index keys_;         // without padding
  Index cols_;         // with padding
  Index first_;        // position of query 0
  Index ahead_;        // keys j < p_i + ahead
  Index behind_;       // keys j > p_i − behind
  bool whole_ = true;  // nothing is forbidden
};

}  // namespace attn
