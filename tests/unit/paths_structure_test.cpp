#include "paths/structure.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <utility>

#include "path_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

std::vector<Path> all_paths(Index rows, Index columns) {
  std::vector<Path> paths;
  for (Index c = 0; c < columns; ++c) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < rows; ++j) paths.push_back({i, j, c});
    }
  }
  return paths;
}

// Rank of the structure vectors by elimination in whole numbers: the matrix is totally unimodular,
// so that entries stay in {−1, 0, 1} and every pivot is a unit.
Index eliminated_rank(const std::vector<Path>& paths, Index rows, Index columns) {
  std::vector<std::vector<int>> matrix;
  for (const Path& path : paths) {
    std::vector<int> vector(static_cast<std::size_t>(2 * rows * columns), 0);
    vector[static_cast<std::size_t>(path.q * columns + path.col)] = 1;
    vector[static_cast<std::size_t>((rows + path.k) * columns + path.col)] = 1;
    matrix.push_back(std::move(vector));
  }
  std::size_t rank = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(2 * rows * columns); ++c) {
    std::size_t pivot = rank;
    while (pivot < matrix.size() && matrix[pivot][c] == 0) ++pivot;
    if (pivot == matrix.size()) continue;
    std::swap(matrix[rank], matrix[pivot]);
    for (std::size_t r = rank + 1; r < matrix.size(); ++r) {
      const int factor = matrix[r][c] * matrix[rank][c];
      if (factor == 0) continue;
      for (std::size_t k = c; k < matrix[r].size(); ++k) {
        matrix[r][k] -= factor * matrix[rank][k];
        REQUIRE(std::abs(matrix[r][k]) <= 1);
      }
    }
    ++rank;
  }
  return static_cast<Index>(rank);
}

Index forest_rank(const std::vector<Path>& paths, Index rows, Index columns) {
  PathForest forest(rows, columns);
  Index independent = 0;
  for (const Path& path : paths) independent += forest.add(path) ? 1 : 0;
  CHECK(independent == forest.rank());
  return forest.rank();
}

}  // namespace

TEST_CASE("the rank of all paths, by forest and by elimination, is that of the theorem") {
  for (Index rows = 1; rows <= 5; ++rows) {
    for (Index columns = 1; columns <= 4; ++columns) {
      const std::vector<Path> paths = all_paths(rows, columns);
      CHECK(*path_count(rows, columns) == static_cast<Index>(paths.size()));
      const Index rank = eliminated_rank(paths, rows, columns);
      CHECK(rank == columns * (2 * rows - 1));
      CHECK(forest_rank(paths, rows, columns) == rank);
      CHECK(structure_rank(rows, columns) == rank);
    }
  }
  CHECK(structure_rank(4096, 4096) == 33550336);
  CHECK(structure_rank(1, 1000) == 1000);
}

TEST_CASE("a basis is independent and complete for every skeleton") {
  Numbers numbers(20);
  for (const auto& [rows, columns] : path_sizes()) {
    const Skeleton skeleton = random_skeleton(rows, columns, numbers);
    std::vector<Path> basis;
    for (Index r = 0; r < basis_rows(rows); ++r) {
      for (Index c = 0; c < columns; ++c) basis.push_back(basis_path(skeleton, rows, r, c));
    }
    CHECK(forest_rank(basis, rows, columns) == static_cast<Index>(basis.size()));
    CHECK(forest_rank(basis, rows, columns) == structure_rank(rows, columns));
  }
}

TEST_CASE("ranks of any sets of paths") {
  Numbers numbers(21);
  for (int trial = 0; trial < 300; ++trial) {
    const Index rows = 1 + numbers.below(5);
    const Index columns = 1 + numbers.below(3);
    std::vector<Path> some;
    for (Index n = numbers.below(2 * rows * columns + 1); n > 0; --n) {
      some.push_back({numbers.below(rows), numbers.below(rows), numbers.below(columns)});
    }
    CHECK(forest_rank(some, rows, columns) == eliminated_rank(some, rows, columns));
  }
  // A cycle: the fourth path is the product of two over the third.
  CHECK(forest_rank({{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 1, 0}}, 2, 1) == 3);
}

TEST_CASE("the number of paths, by both definitions") {
  CHECK(*path_count(2, 1) == 4);
  CHECK(*path_count(4096, 4096) == 68719476736);
  CHECK(*path_instances(3, 2, 1) == 36);
  CHECK(!path_instances(Index{1} << 20, Index{1} << 10, 8).has_value());
  CHECK(!path_count(Index{1} << 31, 4).has_value());
  CHECK(*path_instances(Index{1} << 20, Index{1} << 10, 4) == Index{1} << 62);
}
