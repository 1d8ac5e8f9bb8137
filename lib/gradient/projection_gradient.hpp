#pragma once

#include "tensor/view.hpp"

namespace attn {

/// Where the gradients of a projection's operands go. A gradient whose view has no data is not
/// computed.
template <class T>
struct ProjectionTargets {
  MatrixView<T> input;    ///< dx (L, D), accumulated: the gradient is added
  MatrixView<T> weights;  ///< dw (D, d), contiguous
  MatrixView<T> bias;     ///< db (1, d)

  bool any() const {
    return input.data != nullptr || weights.data != nullptr || bias.data != nullptr;
  }
};

/// Backward through `project`, out = x w + 1·biasᵀ, for dout (L, d):
///
///   dx += dout wᵀ,   dw = xᵀ dout,   db_c = Σ_i dout_ic
///
/// Error: d roundings of Σ|dout||w| for dx, L roundings of Σ|x||dout| for dw; db is summed in
/// float64. Runs on up to `threads` threads; the bits do not depend on their number.
template <class T>
void differentiate_projection(MatrixView<const T> x, MatrixView<const T> w,
                              MatrixView<const T> grad_out, const ProjectionTargets<T>& targets,
                              int threads);

}  // namespace attn
