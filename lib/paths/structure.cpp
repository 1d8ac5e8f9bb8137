#include "paths/structure.hpp"

#include <numeric>

namespace attn {
namespace {

std::optional<Index> product(std::initializer_list<Index> factors) {
  Index result = 1;
  for (const Index factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) return std::nullopt;
  }
  return result;
}

}  // namespace

std::optional<Index> path_count(Index rows, Index columns) {
  return product({rows, rows, columns});
}

std::optional<Index> path_instances(Index length, Index rows, Index columns) {
  return product({length, length, rows, rows, columns});
}

PathForest::PathForest(Index rows, Index columns)
    : rows_(rows), columns_(columns), parent_(static_cast<std::size_t>(2 * rows * columns)) {
  std::iota(parent_.begin(), parent_.end(), Index{0});
}

std::int64_t PathForest::bytes(Index rows, Index columns) {
  return 2 * rows * columns * static_cast<std::int64_t>(sizeof(Index));
}

Index PathForest::root(Index node) {
  const auto parent = [&](Index n) -> Index& { return parent_[static_cast<std::size_t>(n)]; };
  while (parent(node) != node) {
    parent(node) = parent(parent(node));
    node = parent(node);
  }
  return node;
}

bool PathForest::add(const Path& path) {
  const Index of_q = root(path.q * columns_ + path.col);
  const Index of_k = root((rows_ + path.k) * columns_ + path.col);
  if (of_q == of_k) return false;
  parent_[static_cast<std::size_t>(of_k)] = of_q;
  ++rank_;
  return true;
}

Index structure_rank(Index rows, Index columns) {
  PathForest column(rows, 1);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < rows && column.rank() < 2 * rows - 1; ++j) {
      // After the first row all weights of W_K are connected, so one path joins a weight of W_Q to
      // all.
      if (!column.add({i, j, 0}) && i > 0) break;
    }
  }
  return column.rank() * columns;
}

}  // namespace attn
