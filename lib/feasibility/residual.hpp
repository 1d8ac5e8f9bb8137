#pragma once

#include <span>
#include <utility>

#include "feasibility/allowed_pairs.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Lines, and the other lines that each leads to.
class Arcs {
 public:
  using Pair = std::pair<Index, Index>;  ///< from, to

  Arcs(Index lines, std::span<const Pair> pairs);

  std::span<const Index> from(Index line) const {
    const auto i = static_cast<std::size_t>(line);
    return std::span(to_).subspan(first_[i], first_[i + 1] - first_[i]);
  }

 private:
  PooledVector<std::size_t> first_;
  PooledVector<Index> to_;
};

/// A depth-first walk over rows and columns: a row leads to all columns that it allows, a column to
/// the rows that `back` lists. Each line is visited at most once in the life of the search, and
/// removed lines never. Columns without an allowed pair can only be starts.
class ResidualSearch {
 public:
  /// The number of a line: rows are [0, m), columns m + [0, n).
  using Line = Index;

  /// `pairs` and `back` must outlive the search.
  ResidualSearch(const AllowedPairs& pairs, const Arcs& back);

  void take_out(Line line);

  /// Visits all lines that can be reached from `start`, unless `start` was visited before. Calls
  /// left(line) when a line is left, after all lines found from it.
  template <class Left>
  void walk(Line start, const Left& left) {
    if (!enter(start)) return;
    while (!path_.empty()) {
      const Line found = next();
      if (found >= 0) {
        enter(found);
      } else {
        left(path_.back().line);
        path_.pop_back();
      }
    }
  }

 private:
  struct Place {
    Line line;
    Index cursor;  // of a row: earlier columns are visited; of a column: rows visited
  };

  bool enter(Line line);  // false: visited before
  Line next();            // an unvisited line from the end of the path; −1: none

  const AllowedPairs& pairs_;
  const Arcs& back_;
  PooledVector<bool> visited_;
  IndexSet cols_;  // not visited
  PooledVector<Place> path_;
};

}  // namespace attn
