#include <doctest/doctest.h>

#include <random>
#include <stdexcept>

#include "tensor/pieces.hpp"

using namespace attn;
using namespace attn;

TEST_CASE("Pieces follow each other in row-major order and fill the block") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    Shape count(random() % 5, 0);
    for (Index& axis : count) axis = static_cast<Index>(1 + random() % 6);
    const auto limit = static_cast<Index>(1 + random() % 40);
    CAPTURE(to_string(count));
    CAPTURE(limit);
    Index next = 0;
    for_each_piece(count, limit, [&](const Piece& piece) {
      CHECK(piece.size <= limit);
      CHECK(piece.size == element_count(piece.count));
      CHECK(piece.offset == next);
      for (Index k = 0; k < piece.size; ++k) {
        Shape at = unravel(k, piece.count);
        for (std::size_t axis = 0; axis < at.size(); ++axis) at[axis] += piece.start[axis];
        CHECK(ravel(at, count) == next + k);
      }
      next += piece.size;
    });
    CHECK(next == element_count(count));
  }
}

TEST_CASE("A block without elements has no pieces") {
  int visits = 0;
  for_each_piece({3, 0, 5}, 4, [&](const Piece&) { ++visits; });
  CHECK(visits == 0);
}

TEST_CASE("A block outside of the shape is a bug") {
  CHECK_NOTHROW(require_block({1, 0}, {1, 3}, {2, 3}, "x"));
  CHECK_NOTHROW(require_block({2, 0}, {0, 3}, {2, 3}, "x"));
  CHECK_THROWS_AS(require_block({1, 0}, {2, 3}, {2, 3}, "x"), std::invalid_argument);
  CHECK_THROWS_AS(require_block({-1, 0}, {1, 3}, {2, 3}, "x"), std::invalid_argument);
  CHECK_THROWS_AS(require_block({0, 0}, {-1, 3}, {2, 3}, "x"), std::invalid_argument);
  CHECK_THROWS_AS(require_block({0}, {1}, {2, 3}, "x"), std::invalid_argument);
  const Index huge = Index{1} << 62;
  CHECK_THROWS_AS(require_block({huge, 0}, {huge, 1}, {2, 3}, "x"), std::invalid_argument);
}
