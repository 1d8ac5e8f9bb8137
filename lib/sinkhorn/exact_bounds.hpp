#pragma once

#include <cstddef>

#include "pass/potentials.hpp"
#include "score/scores.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/plan_sums.hpp"

/// The certificate of exact transport: bounds on its value that hold for any potentials and plan.
namespace attn {

/// Relative errors of sums and of scores in T.
template <class T>
constexpr double exact_rounding = sizeof(T) == sizeof(float) ? 1e-6 : 1e-14;

/// From the g of `potentials`, the lower bound −Σ a f̄ − Σ b g with f̄_i = max_j (s_ij − g_j), which
/// becomes their f. A g of −inf leaves its column out of f̄ and becomes max_i (s_ij − f̄_i).
template <class T>
double bound_below(const Scores<T>& scores, const Marginals& marginals, Potentials& potentials,
                   int threads);

/// Takes value, errors and status from the sums of a plan; summary.lower and rounding are known.
/// `size` is the largest |s|. If the bounds are close, the status is converged. If the lower bound
/// is above the upper, it is set to the upper.
template <class T>
void bound_above(const PlanSums<T>& sums, const Marginals& marginals, double gap, double size,
                 ExactSummary& summary);

}  // namespace attn
