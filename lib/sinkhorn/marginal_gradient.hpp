#pragma once

#include "pass/potentials.hpp"
#include "score/scores.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// Derivatives by a marginal.
struct MarginalGradient {
  PooledVector<double> row;  ///< by a (Lq)
  PooledVector<double> col;  ///< by b (Lk)
};

/// The derivatives of the optimum of transport (attnkit/transport.hpp) with respect to its
/// marginals, times `unit`, at its potentials. For a_i: −f_i; with penalties ρ_a (1 −
/// exp(f_i/ρ_a)). Without penalties, the derivatives hold for changes that keep Σ a = Σ b. At a
/// marginal of 0 with f = −inf, the derivative from above is −inf, as the optimum has the term a
/// log a. A line whose mass may go nowhere has +inf, as there is no plan; with penalties ρ_a.
/// Closed lines take a pass for each side.
template <class T>
MarginalGradient marginal_gradient(const Scores<T>& scores, const Potentials& potentials,
                                   const Marginals& marginals, double unit, int threads);

}  // namespace attn
