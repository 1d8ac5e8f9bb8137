#pragma once

#include "gradient/adjoints.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Softmax weights P_ij = E_ij ρ_i with E = exp(s) and ρ_i = exp(−f_i) need no exponentials in the
/// gradient where Scores::near_zero: the factor moves to the other side,
///
///   dS_ij = P_ij (G_ij + row_i) = E_ij (ρ_i G_ij + ρ_i row_i),   dV = Pᵀ dO = Eᵀ (ρ dO).
///
/// Returns whether this is done. It requires softmax without a large sink, and a ρ dO in the range
/// of T, judged by the largest magnitudes of dO and of the values. Callers exclude small problems
/// (is_small): there δ comes from the products that it is subtracted from.
bool folds_rows(const SchemeOptions& options, bool near_zero, double largest_grad_out,
                double largest_value);

/// Writes ρ dO to `folded` (Lq, dv), turns adjoint.row into ρ_i row_i and clears adjoint.f and
/// adjoint.g, which marks E as the weights.
template <class T>
void fold_rows(MatrixView<const T> grad_out, WeightAdjoint<T>& adjoint, Buffer<T>& folded);

}  // namespace attn
