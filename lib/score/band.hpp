#pragma once

#include "attnkit/causal.hpp"
#include "score/allowed_counts.hpp"
#include "score/packing.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The positions of queries among the keys, p_i = i + offset, and what follows from them.
struct BandRule {
  bool causal = false;  ///< j <= p_i
  Window window;        ///< p_i − left <= j <= p_i + right
  Index offset = 0;     ///< at most 2^50 in magnitude; unused with a packing
  /// Sequences that queries keep to, with offsets of their own; it may go after the Band is made.
  const Packing* packing = nullptr;
  Index first_query = 0;  ///< the number of query 0 among the queries of the packing
};

/// The Lq × Lk pairs that causality, a window and a packing allow: for each query one run of keys,
/// neither end of which ever moves back from one query to the next.
class Band {
 public:
  /// Throws Error(input) if the window or the offset is out of range.
  Band(Index rows, Index cols, const BandRule& rule);

  /// The keys [begin, end) of query `row`; 0 <= begin <= end <= Lk.
  Index begin(Index row) const;
  Index end(Index row) const;

  /// Whether no pair of `range` is allowed. Exact, and O(1); with a packing O(log Lq).
  bool empty(const TileRange& range) const;

  /// Whether every pair of `range` is allowed. Exact, and O(1).
  bool full(const TileRange& range) const;

  /// The number of columns of `range` up to the last one with an allowed pair; any number for an
  /// empty range. O(1).
  Index cols_in_use(const TileRange& range) const;

  /// Whether every pair is allowed because there is no causality, window or packing.
  bool whole() const { return whole_; }

  /// The bytes of a band of this many queries with a packing.
  static std::int64_t packed_bytes(Index rows) {
    return (rows + 1) * static_cast<std::int64_t>(sizeof(Run));
  }

  /// Counts of the allowed pairs, in O(Lq + Lk).
  AllowedCounts allowed_counts() const;

 private:
  // The keys of a query. A query without keys has an empty run where the run before it ends.
  struct Run {
    Index begin = 0, end = 0;
    Index seeing_before = 0;  // queries before this one that have keys
  };
  bool empty_of_runs(const TileRange& range) const;

  Index rows_;
  Index cols_;
  Index first_;             // position of query 0
  Index ahead_;             // keys j < p_i + ahead
  Index behind_;            // keys j > p_i − behind
  bool whole_ = true;       // nothing is forbidden
  PooledVector<Run> runs_;  // by query, and one more at the end; with a packing
};

}  // namespace attn
