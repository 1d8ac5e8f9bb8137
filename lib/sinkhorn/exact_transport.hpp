#pragma once

#include <cstdint>
#include <limits>

#include "attnkit/transport.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/sinkhorn_state.hpp"

/// Exact optimal transport: with s = −C
///
///   min_P ⟨P, C⟩,   P ≥ 0, Σ_j P_ij = a_i, Σ_i P_ij = b_j   (Kantorovich's problem).
///
/// Two methods find a plan and potentials, which bound the value:
///
///   lower  −Σ a_i f̄_i − Σ b_j g_j,   f̄_i = max_j (s_ij − g_j), so that f̄_i + g_j ≥ s_ij,
///   upper  ⟨P, C⟩ of the plan, which has its marginals.
///
/// Both hold at any stage, up to the rounding of scores and sums. That rounding is taken to be at
/// most r max |s| Σ a over the pairs with mass, r = 1e-14 (float32: 1e-6). The bounds are close if
/// they differ by at most that, or by at most `gap` times the upper bound. If rounding lifts the
/// lower bound above the upper bound, the lower is set to the upper.
///
/// - The simplex (network_simplex.hpp) holds all scores.
/// - Annealing lowers ε step by step, and each solution starts the next (Kosowsky and Yuille 1994,
///   Schmitzer 2019), until the bounds are close. The plan is rounded to its marginals (Altschuler,
///   Weed and Rigollet 2017).
namespace attn {

struct ExactSummary {
  SolveStatus status = SolveStatus::not_converged;
  ExactMethod method = ExactMethod::automatic;  ///< the one used
  Index iterations = 0;                         ///< of annealing, or pivots of the simplex
  double epsilon = 0;                           ///< the last one; 0: the simplex
  double value =
      std::numeric_limits<double>::quiet_NaN();  ///< the upper bound, the value of the plan
  double lower = std::numeric_limits<double>::quiet_NaN();
  /// Not converged because of rounding; annealing: at the least ε that the rounding of scores
  /// allows. More iterations do not help.
  bool limited_by_rounding = false;
  double rounding = 0;   ///< r max |s| Σ a: bounds that differ by no more are close
  double row_error = 0;  ///< Σ_i |Σ_j P_ij − a_i| of the plan as shown
  double col_error = 0;
};

/// A pair of a plan, and the mass that it carries.
struct PlanPair {
  Index row, col;
  double mass;
};

struct ExactSolution {
  /// f̄ and g of the lower bound, in units of the scores: f̄_i + g_j ≥ s_ij for all pairs, with near
  /// equality where the plan has mass. −inf only for a line whose pairs are all forbidden.
  Potentials potentials;
  /// The simplex: all pairs of the plan, by row and column.
  PooledVector<PlanPair> pairs;
  /// Annealing: the plan before the missing mass is added: exp((s_ij/ε − g_j) − f_i), ε =
  /// summary.epsilon. It lacks `row_missing` of the rows and `col_missing` of the columns, up to
  /// the rounding of these potentials. The plan shown is that plan plus e_i d_j / Σ d, without that
  /// rounding.
  Potentials scaled_down;
  PooledVector<double> row_missing;
  PooledVector<double> col_missing;
  ExactSummary summary;
};

/// The method for problems of this size: that of the options, unless it is automatic.
ExactMethod exact_method(const ExactOptions& options, Index rows, Index cols,
                         std::size_t element_size);

/// Shows the plan to `observers`. Requires Σ a = Σ b up to rounding, and no penalties. Throws
/// whatever the scores and observers throw. Bits do not depend on the number of threads.
///
/// Annealing throws Error(input) if a pair of lines with marginals > 0 is forbidden. It ends
/// without reaching the gap after max_iterations, or when ε would be lost in the rounding of the
/// scores. `progress` may be null; only annealing uses it: a solution resumed from its state has
/// the same bits. The simplex requires that a plan over the allowed pairs exists up to rounding.
template <class T>
ExactSolution solve_exact(const Scores<T>& scores, const Marginals& marginals,
                          const ExactOptions& options, const ObserverList<T>& observers,
                          int threads, SinkhornProgress* progress = nullptr);

/// Bytes that solve_exact takes by this method, not automatic, in addition to scores, observers and
/// kept tiles.
std::int64_t exact_transport_bytes(ExactMethod method, Index rows, Index cols,
                                   std::size_t element_size, int threads);

/// solve_exact by the simplex.
template <class T>
ExactSolution solve_by_simplex(const Scores<T>& scores, const Marginals& marginals, double gap,
                               const ObserverList<T>& observers, int threads);

}  // namespace attn
