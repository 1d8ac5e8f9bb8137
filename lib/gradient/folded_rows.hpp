#pragma once

#include "gradient/adjoints.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Softmax weights P_ij = E_ij ρ_i with E = exp(s) and ρ_i = exp(−f_i) need no exponential of their
/// own in the gradient where Scores::near_zero: the factor goes over to the other side of
///
///   dS_ij = P_ij (G_ij + row_i) = E_ij (ρ_i G_ij + ρ_i row_i),   dV = Pᵀ dO = Eᵀ (ρ dO).
///
/// Writes ρ dO to `grad_out` (Lq, dv), makes ρ_i row_i of adjoint.row and clears adjoint.f and
/// adjoint.g, which says that the weights are E. False, and nothing is done, where the scheme is
/// another, the problem is small (where δ is of the very products that it is taken from), or dO is
/// so large or small that ρ dO would leave the range of T.
template <class T>
bool fold_rows(const Forward<T>& forward, WeightAdjoint<T>& adjoint, Buffer<T>& grad_out);

}  // namespace attn
