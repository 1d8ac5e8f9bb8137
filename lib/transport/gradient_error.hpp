#pragma once

#include "pass/potentials.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// An estimate of the relative error of the derivatives that `solved` gives at a plan that is no
/// solution, against those at the solution: the distance, over the length, of ∂L/∂s (Frobenius
/// norm), or if `by_marginals` the larger of it and the same of (u, v). Newton's steps on the
/// potentials, (f, g) + z with M z = (r − a, c − b), which fall quadratically, are taken until the
/// L1 error of the sums has fallen to a tenth, or to its rounding; the derivatives are then
/// computed again. What they still lack is about a tenth of the estimate. NaN if a few steps do not
/// reach that. It takes one system for each step and one more, each with a pass for each step of
/// conjugate gradients.
template <class T>
double gradient_error(const Scores<T>& scores, const Potentials& potentials,
                      const Marginals& marginals, const PlanUpstream<T>& upstream,
                      const ImplicitGradient& solved, bool by_marginals,
                      const ImplicitOptions& options, int threads);

/// Bytes that it takes besides implicit_gradient and differentiate_plans with two plans.
std::int64_t gradient_error_bytes(Index rows, Index cols);

}  // namespace attn
