#pragma once

#include <cstdint>
#include <span>

#include "attnkit/transport.hpp"
#include "pass/pass.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/implicit_gradient.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/sinkhorn_state.hpp"
#include "transport/derivatives.hpp"

/// One problem of transport, from its scores to its results. TransportPlan and sinkhorn-iter solve
/// all their problems by this function.
namespace attn {

template <class T>
struct OneTransport {
  const Scores<T>& scores;  ///< −C/ε, or the given scores
  Marginals& marginals;     ///< they are scaled to equal sums
  const TransportOptions& options;
  double unit = 1;      ///< of the results, in units of the scores
  bool of_cost = true;  ///< else of scores
  PlanUpstream<T> upstream = {};
  /// Only of a divergence: ∂L/∂f of a with itself, and ∂L/∂g of b with itself.
  std::span<const double> row_self_upstream = {}, col_self_upstream = {};
  /// The g to start from, of entropic transport without annealing; empty: none.
  std::span<const double> start = {};
};

/// Where derivatives by the inputs of one problem go. Empty spans are not requested.
template <class T>
struct TransportDerivatives {
  std::span<double> row_marginal = {}, col_marginal = {};
  ScoreDerivatives<T> scores = {};

  bool wanted() const { return !row_marginal.empty() || !col_marginal.empty() || scores.wanted(); }
};

/// Where the results of one problem go (TransportOutputs). Empty spans are not requested.
template <class T>
struct TransportTargets {
  std::span<double> row_potential = {}, col_potential = {};
  std::span<double> row_self_potential = {}, col_self_potential = {};  ///< only of a divergence
  ObserverList<T> plan = {};      ///< they are shown the plan, except of a divergence
  ExactSummary* exact = nullptr;  ///< takes all figures of exact transport; may be null
  /// Derivatives of the optimum, in units of the cost: the scale of its points is the scale of
  /// minus the cost.
  TransportDerivatives<T> optimum = {};
  /// Derivatives of L, by the given scores. A divergence of points has the points here even if no
  /// derivatives are requested, and none by pairs; its energy must be symmetric.
  TransportDerivatives<T> through_solution = {};
};

/// Solves the problem as the options say, and writes its results; see attnkit/transport.hpp. An
/// infeasible problem has no results, and figures of NaN. `progress` may be null; a divergence does
/// not use it. A solution resumed from its state has the same bits. Throws as TransportPlan::run.
template <class T>
TransportProblem solve_transport(const OneTransport<T>& problem, const TransportTargets<T>& to,
                                 int threads, SinkhornProgress* progress = nullptr);

/// Bytes that the derivatives through a solution or iterations take besides scores, upstream
/// derivatives, sinks and results.
std::int64_t through_solution_bytes(const TransportOptions& options, Index rows, Index cols,
                                    std::size_t element_size, int threads);

/// Bytes that a divergence takes in addition to transport between the larger side and itself, and
/// to gradients. `depth` is of points; `energy` is null if there are none.
std::int64_t divergence_bytes(Index rows, Index cols, const EnergyDescription* energy, Index depth,
                              std::size_t element_size);

}  // namespace attn
