#pragma once

#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// An operand whose shape has been checked: each problem uses one block of it, rows × cols.
struct PlannedOperand {
  std::string name;
  Shape shape;
  Index rows = 1;  ///< 1 along an axis of a block that broadcasts
  Index cols = 1;
  Index blocks = 1;
  std::vector<Index> block_of;  ///< by problem

  Index size() const { return rows * cols; }
  Index block(Index problem) const { return block_of[static_cast<std::size_t>(problem)]; }
};

}  // namespace attn
