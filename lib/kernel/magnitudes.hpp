#pragma once

#include "tensor/shape.hpp"

namespace attn::kernel {

/// Whether the n numbers x contain neither a NaN nor an infinity. Also returns the largest finite
/// magnitude (0 without one), and whether any sign bit is set, including the sign of −0 and of a
/// NaN.
bool magnitudes(const float* x, Index n, float* largest_finite, bool* any_negative);
bool magnitudes(const double* x, Index n, double* largest_finite, bool* any_negative);

}  // namespace attn::kernel
