#pragma once

#include <optional>

#include "attnkit/causal.hpp"
#include "tensor/view.hpp"

namespace attn {

/// A value for each operand that gives a bound of, or a position in, the sequences of a problem.
template <class X>
struct PerBound {
  X query_length{}, key_length{}, query_start{}, key_start{}, query_offset{};
};

/// Calls body(name, a.bound, b.bound) for each of these operands.
template <class A, class B, class Body>
void for_bound_pairs(A& a, B& b, const Body& body) {
  body("query_length", a.query_length, b.query_length);
  body("key_length", a.key_length, b.key_length);
  body("query_start", a.query_start, b.query_start);
  body("key_start", a.key_start, b.key_start);
  body("query_offset", a.query_offset, b.query_offset);
}

/// The bounds of the sequences of one problem. An absent start is 0; an absent length reaches to
/// the end.
using SequenceBounds = PerBound<std::optional<Index>>;

/// The queries and keys of a problem that are not padding. A problem is computed on these alone.
struct OwnPart {
  TileRange range;   ///< queries by keys
  Index offset = 0;  ///< query range.row0 + i stands at i + offset among the keys of the range

  Index queries() const { return range.rows; }
  Index keys() const { return range.cols; }
  bool is_whole(Index queries, Index keys) const {
    return range.rows == queries && range.cols == keys;
  }
};

/// The own rows of an array by query or by key, or the own part of an array by pair, along the axes
/// that it has; other axes have length 1. A matrix without data stays as it is.
template <class T>
MatrixView<T> by_query(const MatrixView<T>& all, const TileRange& own) {
  return all.data == nullptr ? all : all.row_range(own.row0, own.rows);
}
template <class T>
MatrixView<T> by_key(const MatrixView<T>& all, const TileRange& own) {
  return all.data == nullptr ? all : all.row_range(own.col0, own.cols);
}
template <class T>
MatrixView<T> by_pair(const MatrixView<T>& all, const TileRange& own) {
  if (all.data == nullptr) return all;
  const bool rows = all.rows > 1;
  const bool cols = all.cols > 1;
  return {all.row(rows ? own.row0 : 0) + (cols ? own.col0 : 0), rows ? own.rows : 1,
          cols ? own.cols : 1, all.row_stride};
}

/// Without a given offset, takes usual_offset of the own part. Throws Error(input) that names a
/// start or a length below 0 or beyond the array.
OwnPart own_part(const SequenceBounds& bounds, Index queries, Index keys, Causal causal);

}  // namespace attn
