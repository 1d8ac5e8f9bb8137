#pragma once

#include "attnkit/transport.hpp"
#include "plan/solution_targets.hpp"
#include "plan/transport_points.hpp"
#include "sinkhorn/divergence_gradient.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "sinkhorn/marginals.hpp"

namespace attn {

/// One problem of a TransportPlan.
template <class T>
struct PlannedTransport {
  const Scores<T>& scores;  ///< −C/ε, or the given scores
  Marginals& marginals;     ///< they are scaled to equal sums
  const TransportOptions& options;
  double unit = 1;            ///< of the results, in units of the scores
  bool of_cost = true;        ///< else of scores
  TransportPoints<T> points;  ///< without data unless the cost is that of points
  PlanUpstream<T> upstream;
  DivergenceUpstream of_divergence;  ///< for a divergence, in place of `upstream`
  SolutionTargets<T> through;
  const TransportOutputs<T>& outputs;
  Index number = 0;  ///< of the problem, whose blocks of the outputs are written
  int threads = 1;
};

/// Solves the problem as the options say, and writes its results; see attnkit/transport.hpp.
template <class T>
TransportProblem solve_transport(const PlannedTransport<T>& problem);

}  // namespace attn
