#include "tensor/pieces.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn {

void for_each_piece(const Shape& count, Index limit,
                    const std::function<void(const Piece&)>& visit) {
  const Index total = element_count(count);
  if (total == 0) return;
  // Axes from `whole` on fit into one piece together; the axis before them is cut into runs; pieces
  // have length 1 along all earlier axes.
  std::size_t whole = count.size();
  Index inner = 1;
  while (whole > 0 && inner * count[whole - 1] <= limit) inner *= count[--whole];
  if (whole == 0) {
    visit(Piece{Shape(count.size(), 0), count, 0, total});
    return;
  }
  const std::size_t cut = whole - 1;
  const Index run = std::max<Index>(1, limit / inner);
  const Shape outer(count.begin(), count.begin() + cut);
  Piece piece;
  for (Index row = 0; row < element_count(outer); ++row) {
    piece.start = unravel(row, outer);
    piece.start.resize(count.size(), 0);
    piece.count = Shape(cut, 1);
    piece.count.insert(piece.count.end(), count.begin() + cut, count.end());
    for (Index at = 0; at < count[cut]; at += run) {
      piece.start[cut] = at;
      piece.count[cut] = std::min(run, count[cut] - at);
      piece.size = piece.count[cut] * inner;
      visit(piece);
      piece.offset += piece.size;
    }
  }
}

void require_block(const Shape& start, const Shape& count, const Shape& shape,
                   const std::string& what) {
  bool fits = start.size() == shape.size() && count.size() == shape.size();
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = start[axis] >= 0 && count[axis] >= 0 && start[axis] <= shape[axis] - count[axis];
  }
  if (!fits) {
    throw std::invalid_argument(what + ": block " + to_string(start) + " + " + to_string(count) +
                                " is outside of shape " + to_string(shape));
  }
}

}  // namespace attn
