#pragma once

#include "gradient/plan_gradient.hpp"
#include "sinkhorn/barycentre_gradient.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The plans of histograms with a weight > 0, with the coefficients factor·w_k. The result refers
/// to `found`.
PooledVector<PlanTerm> barycentre_plans(const Barycentre& found, const Histograms& histograms,
                                        double factor);

/// The same with U and V: the terms from which differentiate_solutions makes the derivative by the
/// scores through the barycentre. The result refers to `found` and `solved`.
PooledVector<SolutionTerm> barycentre_terms(const Barycentre& found, const Histograms& histograms,
                                            const ImplicitBarycentre& solved);

}  // namespace attn
