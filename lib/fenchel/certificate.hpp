#pragma once

#include "fenchel/divergence.hpp"
#include "fenchel/dual.hpp"
#include "fenchel/templates.hpp"

namespace attn::fenchel {

/// A solution, in centred templates: λ (d), μ̃ + z, ĥ and p. The last call of Divergence::evaluate
/// was for this solution.
struct Solution {
  const double* lambda;
  const double* target;
  const double* mean;
  const double* p;
  Index depth;
};

/// Below this norm, a gradient in centred templates is rounding of target and mean, and of logits
/// that move the mean.
double gradient_rounding(const Templates& templates, const double* target, double lambda_norm);

/// Fills in primal and dual, each from its own formula, and the deviation of their difference from
/// the gap.
void certify(const Solution& at, double partition, double alpha, Divergence& divergence,
             DualSummary& summary);

}  // namespace attn::fenchel
