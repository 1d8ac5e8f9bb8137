#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attnkit/transport.hpp"
#include "pass/potentials.hpp"
#include "pass/rank_rows.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/sinkhorn_state.hpp"
#include "tensor/pooled_vector.hpp"

/// Entropic optimal transport of scores s with marginals a and b (Cuturi 2013; MATHEMATICS.md §2):
///
///   primal  min_π  −⟨π, s⟩ + Σ_ij π_ij (log π_ij − 1),   π ≥ 0, Σ_j π_ij = a_i, Σ_i π_ij = b_j,
///   dual    max_{f,g}  −⟨a, f⟩ − ⟨b, g⟩ − Σ_ij exp((s_ij − g_j) − f_i),
///
/// π_ij = exp((s_ij − g_j) − f_i) at the optimum. With s = −C/ε, ε times either value is the value
/// of transport with cost C, min ⟨π, C⟩ + ε Σ π (log π − 1).
namespace attn {

struct SinkhornSolution {
  Potentials potentials;
  SinkhornSummary summary;
  std::vector<double> errors;  ///< by iteration: the L1 error of its plan, up to rounding; while
                               ///< annealing, with the ε of that iteration
};

/// Solves the problem by Sinkhorn's iterations and shows the plan to `observers`. One iteration
/// with all marginals 1 is dnas to the last bit. If the marginals cannot be met, it runs as many
/// iterations as are allowed; feasibility.hpp finds out whether they can. Throws Error(numerical)
/// for marginals, or with penalties a plan, whose sums exceed the range of T, and whatever the
/// scores and observers throw. `progress` may be null, and must be null for symmetric marginals,
/// whose steps are SinkhornIteration::iterate_symmetric. A solution resumed from its state has the
/// same bits. Without annealing, `start` (Lk) is the g of the first iteration, in place of the one
/// that SinkhornIteration::start finds; throws Error(input) if it is not finite where that one is.
/// Without penalties, a mean of `start` above 2^16 in magnitude is taken off.
template <class T>
SinkhornSolution solve_sinkhorn(const Scores<T>& scores, const Marginals& marginals,
                                const SinkhornOptions& options, const ObserverList<T>& observers,
                                int threads, SinkhornProgress* progress = nullptr,
                                std::span<const double> start = {});

/// The tolerance used for a plan with this total; none if an exact number of iterations is
/// requested.
std::optional<double> tolerance_in_force(const Stopping& stopping, double total,
                                         std::size_t element_size);

/// The same for these marginals. With penalties and Σ a ≠ Σ b, a solution has potentials of about
///
///   F = ρ_a ρ_b/(ρ_a + ρ_b) |log(Σ a/Σ b)|,
///
/// whose rounding, 2⁻⁵³ F relative to the mass, limits every plan. The usual tolerance is at least
/// four times that rounding, but no more than the usual tolerance of float32.
std::optional<double> tolerance_in_force(const Stopping& stopping, const Marginals& marginals,
                                         std::size_t element_size);

/// The L1 error of a plan's sums; 0 if the plan is a solution, as derivatives through the solution
/// require. A plan that converged is a solution. Any other plan is a solution if its error is
/// within `usual`, the tolerance in force without options.
double solution_error(const SinkhornSummary& summary, std::optional<double> usual);

/// The largest kept_bytes that is of use; with ranks, to each of them.
std::int64_t useful_sinkhorn_bytes(const SinkhornOptions& options, Index rows, Index cols,
                                   std::size_t element_size, const RankRows& ranks = {});

/// Bytes that solve_sinkhorn takes in addition to scores, observers and kept tiles.
std::int64_t sinkhorn_solver_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
