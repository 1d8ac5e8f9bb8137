#pragma once

#include <string>

#include "attnkit/transport.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/plan_sums.hpp"

namespace attn {

/// Whether Σ a = Σ b, up to the rounding of sums of a few million numbers.
bool totals_agree(const Marginals& marginals);

/// The SinkhornSummary of the plan with these potentials and sums: its errors against a and b
/// without penalties, mass, score, primal, dual and gap. No score of a pair with marginals > 0 may
/// exceed `size` in magnitude; `size` is +inf if pairs are forbidden or it is unknown. The gap is
/// NaN if `size` is +inf or the totals do not agree.
template <class T>
SinkhornSummary plan_summary(const PlanSums<T>& sums, const Marginals& marginals,
                             const Potentials& potentials, double size);

/// Throws Error(numerical) that begins with `what`, as in "the marginals add up to", if sums up to
/// the total and their products with scores could exceed the range of T.
template <class T>
void require_room(double total, const std::string& what);

}  // namespace attn
