#pragma once

#include "attnkit/causal.hpp"
#include "score/allowed_counts.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The positions of queries among the keys, p_i = i + offset, and what follows from them.
struct BandRule {
  bool causal = false;  ///< j <= p_i
  Window window;        ///< p_i − left <= j <= p_i + right
  Index offset = 0;     ///< at most 2^50 in magnitude
};

/// The Lq × Lk pairs that causality and a window allow: for each query one run of keys, neither end
/// of which ever moves back from one query to the next.
class Band {
 public:
  /// Throws Error(input) if the window or the offset is out of range.
  Band(Index rows, Index cols, const BandRule& rule);

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

  /// Whether every pair is allowed because there is neither causality nor a window.
  bool whole() const { return whole_; }

  /// Counts of the allowed pairs, in O(Lq + Lk).
  AllowedCounts allowed_counts() const;

 private:
  Index rows_;
  Index cols_;
  Index first_;        // position of query 0
  Index ahead_;        // keys j < p_i + ahead
  Index behind_;       // keys j > p_i − behind
  bool whole_ = true;  // nothing is forbidden
};

}  // namespace attn
