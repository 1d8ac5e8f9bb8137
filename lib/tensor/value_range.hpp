#pragma once

#include <limits>

#include "tensor/shape.hpp"

namespace attn {

/// Counts and range of the numbers in an array, gathered block by block.
struct ValueRange {
  Index count = 0;
  Index nan = 0;
  Index infinite = 0;                                     ///< of either sign
  double min = std::numeric_limits<double>::infinity();   ///< over the finite ones; +inf if none
  double max = -std::numeric_limits<double>::infinity();  ///< over the finite ones; −inf if none

  void add(const double* values, Index size);

  Index finite() const { return count - nan - infinite; }
};

}  // namespace attn
