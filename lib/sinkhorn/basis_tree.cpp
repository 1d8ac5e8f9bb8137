#include "sinkhorn/basis_tree.hpp"

#include <limits>

namespace attn {

BasisTree::BasisTree(Index rows, Index cols)
    : rows_(static_cast<Line>(rows)),
      nodes_(static_cast<std::size_t>(rows + cols)),
      col_potential_(static_cast<std::size_t>(cols), 0.0) {}

void BasisTree::attach(Line child, Line parent, std::int64_t amount) {
  link(child, parent);
  nodes_[at(child)].amount = amount;
  nodes_[at(parent)].size += nodes_[at(child)].size;
  root_ = parent;
}

void BasisTree::link(Line child, Line parent) {
  nodes_[at(child)].parent = parent;
  if (is_listed(child)) insert(child);
}

void BasisTree::unlink(Line child) {
  if (is_listed(child)) remove(child);
  nodes_[at(child)].parent = none;
}

void BasisTree::insert(Line child) {
  Node& node = nodes_[at(child)];
  Node& above = nodes_[at(node.parent)];
  // A row with its first child.
  if (is_row(node.parent) && above.first_child == none && above.parent != none) {
    insert(node.parent);
  }
  node.previous = none;
  node.next = above.first_child;
  if (node.next != none) nodes_[at(node.next)].previous = child;
  above.first_child = child;
}

void BasisTree::remove(Line child) {
  const Node& node = nodes_[at(child)];
  Node& above = nodes_[at(node.parent)];
  (node.previous != none ? nodes_[at(node.previous)].next : above.first_child) = node.next;
  if (node.next != none) nodes_[at(node.next)].previous = node.previous;
  // A row without its last child.
  if (is_row(node.parent) && above.first_child == none && above.parent != none) {
    remove(node.parent);
  }
}

BasisTree::Line BasisTree::meeting_point(Line a, Line b) const {
  // Lines have fewer lines below them than those above them.
  while (a != b) {
    Line& lower = nodes_[at(a)].size < nodes_[at(b)].size ? a : b;
    lower = nodes_[at(lower)].parent;
  }
  return a;
}

// Along the cycle of the entering pair, from its top down to the row, over the pair and up again,
// amounts of the pairs above rows on the way down and above columns on the way up become smaller.
// The last of the smallest ones leaves, which keeps the tree strongly feasible.
BasisTree::Leaving BasisTree::leaving(Line row, Line col, Line top) const {
  Leaving found{none, std::numeric_limits<std::int64_t>::max(), true};
  for (Line line = row; line != top; line = nodes_[at(line)].parent) {
    const std::int64_t amount = nodes_[at(line)].amount;
    if (is_row(line) && amount < found.amount) found = {line, amount, true};
  }
  for (Line line = col; line != top; line = nodes_[at(line)].parent) {
    const std::int64_t amount = nodes_[at(line)].amount;
    if (!is_row(line) && amount <= found.amount) found = {line, amount, false};
  }
  return found;
}

void BasisTree::pivot(Index entering_row, Index entering_col, double score, double gain) {
  const auto row = static_cast<Line>(entering_row);
  const auto col = static_cast<Line>(rows_ + entering_col);
  const Line top = meeting_point(row, col);
  const Leaving out = leaving(row, col, top);
  for (Line line = row; line != top; line = nodes_[at(line)].parent) {
    nodes_[at(line)].amount += is_row(line) ? -out.amount : out.amount;
  }
  for (Line line = col; line != top; line = nodes_[at(line)].parent) {
    nodes_[at(line)].amount += is_row(line) ? out.amount : -out.amount;
  }
  // The branch below the leaving pair moves from there to the entering pair.
  const Line inner = out.above_row ? row : col;
  const Line outer = out.above_row ? col : row;
  const Line moved = nodes_[at(out.line)].size;
  for (Line line = nodes_[at(out.line)].parent; line != top; line = nodes_[at(line)].parent) {
    nodes_[at(line)].size -= moved;
  }
  for (Line line = outer; line != top; line = nodes_[at(line)].parent) {
    nodes_[at(line)].size += moved;
  }
  unlink(out.line);
  // Either part may change its potentials: g of the part with the column grows by the gain, or g of
  // the other part falls by it. The branch is no longer below the root.
  const bool by_branch = moved <= nodes_[at(root_)].size / 2;
  const double by = by_branch == out.above_row ? -gain : gain;
  for_each_from(by_branch ? out.line : root_, [&](Line line) {
    if (is_row(line)) return;
    double& potential = col_potential_[at(line - rows_)];
    potential += by;
    largest_potential_ = std::max(largest_potential_, std::abs(potential));
  });
  largest_score_ = std::max(largest_score_, std::abs(score));
  hang(out.line, inner, outer, out.amount);
}

// Hangs the branch with the old top `branch` on `outer` by its line `inner`, and turns the pairs on
// the way between the two around.
void BasisTree::hang(Line branch, Line inner, Line outer, std::int64_t amount) {
  const Line all = nodes_[at(branch)].size;
  Line below = 0;  // the lines that were below the line before
  for (Line line = inner, parent = outer;;) {
    const Node old = nodes_[at(line)];
    if (line != branch) unlink(line);
    link(line, parent);
    nodes_[at(line)].amount = amount;
    nodes_[at(line)].size = all - below;
    if (line == branch) return;
    amount = old.amount;
    below = old.size;
    parent = line;
    line = old.parent;
  }
}

std::int64_t BasisTree::bytes(Index rows, Index cols) {
  return (rows + cols) * static_cast<std::int64_t>(sizeof(Node)) +
         cols * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace attn
