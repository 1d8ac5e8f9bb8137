#pragma once

#include <cmath>
#include <optional>

#include "tensor/shape.hpp"

namespace attn::train {

/// The standard deviation of the normal numbers with which a matrix starts: the chosen one for all,
/// else √(2/(rows + columns)) (Glorot and Bengio, 2010).
inline double start_deviation(const std::optional<double>& chosen, Index rows, Index cols) {
  return chosen ? *chosen : std::sqrt(2 / static_cast<double>(rows + cols));
}

}  // namespace attn::train
