#include "sinkhorn/feasible_marginals.hpp"

#include <cmath>

namespace attn {
namespace {

void make_equal(Marginals& marginals, const Feasibility& found) {
  if (found.row_total == found.col_total || found.col_total == 0) return;
  for (double& value : marginals.col) value *= found.row_total / found.col_total;
}

}  // namespace

FeasibleMarginals make_feasible(const AllowedPairs& pairs, const MarginalTolerance& tolerance,
                                Marginals& marginals) {
  FeasibilityOptions options;
  options.epsilon = tolerance.rounding;
  FeasibleMarginals result;
  Feasibility& found = result.feasibility;
  found = examine(pairs, marginals.row, marginals.col, options);
  const double apart = std::abs(found.row_total - found.col_total);
  if (found.prospect == Prospect::unequal_totals && tolerance.asked && found.row_total > 0 &&
      found.col_total > 0 && apart <= *tolerance.asked * tolerated_share) {
    result.rescaled = apart;
    make_equal(marginals, found);
    found = examine(pairs, marginals.row, marginals.col, options);
  }
  make_equal(marginals, found);
  result.tolerance = tolerance.in_force - result.rescaled;
  return result;
}

}  // namespace attn
