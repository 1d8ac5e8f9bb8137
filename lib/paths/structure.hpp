#pragma once

#include <optional>
#include <vector>

#include "paths/basis.hpp"

namespace attn {

/// d1² d2: the number of paths in the scores (SI Example 1). Nothing if it does not fit an Index.
std::optional<Index> path_count(Index rows, Index columns);

/// s² d1² d2: the instances of paths over s inputs, which SI Prop. 2 counts as paths
/// (MATHEMATICS.md §9 E3).
std::optional<Index> path_instances(Index length, Index rows, Index columns);

/// The exact rank of a set of paths. The structure vector of a path has two ones among the 2 d1 d2
/// weights: it is an edge between a weight of W_Q and one of W_K. The vectors of edges of a
/// bipartite graph are independent, over any field, exactly if the edges form a forest. The rank is
/// therefore the number of paths that connect parts not connected before.
class PathForest {
 public:
  PathForest(Index rows, Index columns);

  /// Adds a path; returns whether it is independent of the paths before. Requires indices in range.
  bool add(const Path& path);

  Index rank() const { return rank_; }

  /// Bytes of memory that a forest takes.
  static std::int64_t bytes(Index rows, Index columns);

 private:
  Index root(Index node);

  Index rows_;
  Index columns_;
  std::vector<Index> parent_;
  Index rank_ = 0;
};

/// Rank of the structure matrix of all d1² d2 paths. Paths of a column are added until they connect
/// all its 2 d1 weights; no further path can then be independent. Columns share no weight, so their
/// ranks add. SI Theorem 2: d2 (2 d1 − 1). Takes PathForest::bytes(rows, 1) of memory; throws
/// std::bad_alloc if there is less.
Index structure_rank(Index rows, Index columns);

}  // namespace attn
