#pragma once

#include <span>

#include "tensor/view.hpp"

namespace attn {

/// How the data of a weight change when columns are rescaled to W_Q[:,c] f and W_K[:,c] / f (SI
/// Prop. 1); by the chain rule, gradients change the other way round.
enum class Rescaled { times, over, over_square, times_square };

/// Rescales w[:,c] by factors[c], with one rounding per operation; exact for powers of two within
/// T's range. Results outside that range become infinite or 0.
template <class T>
void rescale_columns(MatrixView<T> w, std::span<const T> factors, Rescaled how);

}  // namespace attn
