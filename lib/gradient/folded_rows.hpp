#pragma once

#include "gradient/adjoints.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Softmax weights P_ij = E_ij ρ_i with E = exp(s) and ρ_i = exp(−f_i) need no exponential of their
/// own in the gradient where Scores::near_zero: the factor moves to the other side,
///
///   dS_ij = P_ij (G_ij + row_i) = E_ij (ρ_i G_ij + ρ_i row_i),   dV = Pᵀ dO = Eᵀ (ρ dO).
///
/// Writes ρ dO to `grad_out` (Lq, dv), turns adjoint.row into ρ_i row_i and clears adjoint.f and
/// adjoint.g, which marks E as the weights. Returns false, and does nothing, if the scheme is not
/// softmax, the problem is small (is_small: δ then comes from the very products that it is
/// subtracted from), or dO is so large or small that ρ dO would leave the range of T.
template <class T>
bool fold_rows(const Forward<T>& forward, WeightAdjoint<T>& adjoint, Buffer<T>& grad_out);

}  // namespace attn
