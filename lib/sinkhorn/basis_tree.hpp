#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// A basis of Kantorovich's problem max Σ P_ij s_ij: a rooted tree of pairs over all lines with
/// mass, the whole amounts that its pairs carry, and potentials with f_i + g_j = s_ij on it. The
/// root is a column. The tree is strongly feasible (Cunningham 1976): every column but the root
/// takes an amount > 0 from the row above it. A basis then never comes back, whichever pairs enter,
/// as long as f_i + g_j < s_ij holds exactly.
///
/// Only g is kept: a row has the potential f_i = s_ij − g_j of the column j above it.
class BasisTree {
 public:
  /// Row i is line i, column j line rows + j.
  using Line = std::int32_t;

  BasisTree(Index rows, Index cols);

  /// Puts `child`, whose children are there already, below `parent`. The last parent is the root.
  void attach(Line child, Line parent, std::int64_t amount);

  /// The column above row i of the tree.
  Index column_above(Index i) const { return nodes_[static_cast<std::size_t>(i)].parent - rows_; }

  /// Once set_potentials has run. The tree does not use that of a column outside of it.
  std::span<double> col_potentials() { return col_potential_; }

  /// No potential was larger in magnitude since set_potentials.
  double largest_potential() const { return largest_potential_ + largest_score_; }

  /// Makes all potentials anew, with 0 at the root. score(i, j) is s_ij of a pair of the tree.
  template <class Score>
  void set_potentials(const Score& score) {
    largest_potential_ = largest_score_ = 0;
    const auto score_above = [&](Line line) {
      const Line other = nodes_[at(line)].parent;
      return is_row(line) ? score(line, other - rows_) : score(other, line - rows_);
    };
    const auto g = [&](Line col) -> double& { return col_potential_[at(col - rows_)]; };
    g(root_) = 0;
    for_each_from(root_, [&](Line line) {
      if (is_row(line) || line == root_) return;
      const Line row = nodes_[at(line)].parent;
      g(line) = score_above(line) - (score_above(row) - g(nodes_[at(row)].parent));
      largest_potential_ = std::max(largest_potential_, std::abs(g(line)));
      largest_score_ = std::max(largest_score_, std::abs(score_above(line)));
    });
    for (Line row = 0; row < rows_; ++row) {
      if (nodes_[at(row)].parent == none) continue;
      largest_score_ = std::max(largest_score_, std::abs(score_above(row)));
    }
  }

  /// Lets the pair (row, col) enter and another pair leave. `gain` > 0 is s_ij − f_i − g_j.
  void pivot(Index row, Index col, double score, double gain);

  /// Calls use(row, col, amount) for each pair of the tree.
  template <class Use>
  void for_each_pair(const Use& use) const {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (node.parent == none) continue;
      const auto line = static_cast<Line>(n);
      use(is_row(line) ? line : node.parent, (is_row(line) ? node.parent : line) - rows_,
          node.amount);
    }
  }

  static std::int64_t bytes(Index rows, Index cols);

 private:
  static constexpr Line none = -1;

  // A row is among the children of its column only if it has children itself: potentials change
  // for columns, and walks from column to column are shorter without the other rows.
  struct Node {
    Line parent = none, first_child = none, next = none, previous = none;
    Line size = 1;            // the lines from here on down
    std::int64_t amount = 0;  // of the pair with the parent
  };

  /// The pair that leaves, by its lower line, and the amount that it carried.
  struct Leaving {
    Line line = none;
    std::int64_t amount = 0;
    bool above_row = true;  // whether it lies on the way from the entering row to the root
  };

  static std::size_t at(Line line) { return static_cast<std::size_t>(line); }
  bool is_row(Line line) const { return line < rows_; }

  bool is_listed(Line line) const { return !is_row(line) || nodes_[at(line)].first_child != none; }

  /// Calls use(line) for `top` and all lines below it that are listed, each after its parent.
  template <class Use>
  void for_each_from(Line top, const Use& use) const {
    for (Line line = top;;) {
      use(line);
      if (nodes_[at(line)].first_child != none) {
        line = nodes_[at(line)].first_child;
        continue;
      }
      while (line != top && nodes_[at(line)].next == none) line = nodes_[at(line)].parent;
      if (line == top) return;
      line = nodes_[at(line)].next;
    }
  }

  Line meeting_point(Line a, Line b) const;
  Leaving leaving(Line row, Line col, Line top) const;
  void link(Line child, Line parent);
  void unlink(Line child);
  void insert(Line child);
  void remove(Line child);
  void hang(Line branch, Line inner, Line outer, std::int64_t amount);

  Line rows_;
  PooledVector<Node> nodes_;
  PooledVector<double> col_potential_;
  double largest_potential_ = 0;  // of columns
  double largest_score_ = 0;      // of pairs of the tree
  Line root_ = none;
};

}  // namespace attn
