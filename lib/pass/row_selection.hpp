#pragma once

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// Rows [first, last).
struct RowRange {
  Index first = 0;
  Index last = 0;
};

/// Some rows of a matrix, each once and in ascending order.
class RowSelection {
 public:
  /// The union of `ranges`, some of which may be empty. Throws Error(input) naming the first that
  /// runs backwards or leaves [0, rows).
  RowSelection(PooledVector<RowRange> ranges, Index rows);

  /// Disjoint, none empty, ascending.
  const PooledVector<RowRange>& ranges() const { return ranges_; }

  Index count() const { return count_; }

  /// The number of chosen rows before `row`; for a chosen row, its place among them.
  Index position(Index row) const;

  bool contains(Index row) const { return meets({row, row + 1}); }
  bool meets(const RowRange& rows) const;

  /// The parts of `rows` that are chosen, ascending.
  PooledVector<RowRange> within(const RowRange& rows) const;

 private:
  PooledVector<RowRange>::const_iterator first_ending_after(Index row) const;

  PooledVector<RowRange> ranges_;
  PooledVector<Index> before_;  // per range: chosen rows before it
  Index count_ = 0;
};

}  // namespace attn
