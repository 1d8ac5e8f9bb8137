#pragma once

#include "pass/potentials.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// Derivatives by a marginal.
struct MarginalGradient {
  PooledVector<double> row;  ///< by a (Lq)
  PooledVector<double> col;  ///< by b (Lk)
};

/// The derivatives of the dual value of transport (attnkit/transport.hpp), times `unit`, at given
/// potentials; at the solution they are those of the optimum. By a_i: −f_i; with penalties ρ_a (1 −
/// exp(f_i/ρ_a)). Exact marginals must keep Σ a = Σ b, so that only derivatives along such changes
/// mean anything. −inf at a marginal of 0 with f = −inf; ρ_a for a row whose mass may go nowhere.
MarginalGradient marginal_gradient(const Potentials& potentials, const Marginals& marginals,
                                   double unit);

}  // namespace attn
