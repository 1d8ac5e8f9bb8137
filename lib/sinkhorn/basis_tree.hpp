#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// A basis of Kantorovich's problem max Σ P_ij s_ij: a rooted tree of pairs over all lines with
/// mass, the whole amounts that its pairs carry, and potentials with f_i + g_j = s_ij on it. Row i
/// is line i, column j line rows + j. The tree is strongly feasible (Cunningham 1976): every column
/// but the root takes an amount > 0 from the row above it. A basis then never comes back, whichever
/// pairs enter, as long as f_i + g_j < s_ij holds exactly.
class BasisTree {
 public:
  using Line = std::int32_t;

  BasisTree(Index rows, Index cols);

  /// Puts `child`, whose children are there already, below `parent`. The last parent is the root.
  void attach(Line child, Line parent, std::int64_t amount);

  /// f of the rows and g of the columns, once set_potentials has run. That of a line outside of the
  /// tree may be set; the tree does not use it.
  std::span<double> row_potentials() { return std::span(potential_).first(at(rows_)); }
  std::span<double> col_potentials() { return std::span(potential_).subspan(at(rows_)); }

  /// No potential was larger in magnitude since set_potentials.
  double largest_potential() const { return largest_; }

  /// Makes all potentials anew, with 0 at the root. score(i, j) is s_ij of a pair of the tree.
  template <class Score>
  void set_potentials(const Score& score) {
    largest_ = 0;
    potential_[at(root_)] = 0;
    for_each_from(root_, [&](Line line) {
      if (line != root_) set(line, score_of(line, score) - potential_[at(nodes_[at(line)].parent)]);
    });
  }

  /// Lets the pair (row, col) enter and another pair leave. `gain` > 0 is s_ij − f_i − g_j.
  void pivot(Index row, Index col, double gain);

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

  template <class Score>
  double score_of(Line line, const Score& score) const {
    const Line other = nodes_[at(line)].parent;
    return is_row(line) ? score(line, other - rows_) : score(other, line - rows_);
  }

  void set(Line line, double potential) {
    potential_[at(line)] = potential;
    largest_ = std::max(largest_, std::abs(potential));
  }

  /// Calls use(line) for `top` and all lines below it, each after its parent.
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
  void hang(Line branch, Line inner, Line outer, std::int64_t amount);

  Line rows_;
  PooledVector<Node> nodes_;
  PooledVector<double> potential_;
  double largest_ = 0;
  Line root_ = none;
};

}  // namespace attn
