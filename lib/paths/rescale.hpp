#pragma once

#include <span>

#include "tensor/view.hpp"

namespace attn {

/// How what belongs to a weight changes with it when columns are rescaled: W_Q[:,c] f and
/// W_K[:,c] / f (SI Prop. 1), by the chain rule gradients the other way round.
enum class Rescaled { times, over, over_square, times_square };

/// w[:,c] by factors[c], one rounding for each operation; exact for powers of two within T's range.
/// What leaves it comes out infinite or 0.
template <class T>
void rescale_columns(MatrixView<T> w, std::span<const T> factors, Rescaled how);

}  // namespace attn
