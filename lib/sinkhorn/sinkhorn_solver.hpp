#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "pass/potentials.hpp"
#include "sinkhorn/marginals.hpp"
#include "attnkit/stopping.hpp"

/// Entropic optimal transport of scores s with marginals a and b (Cuturi 2013; MATHEMATICS.md §2):
///
///   primal  min_π  −⟨π, s⟩ + Σ_ij π_ij (log π_ij − 1),   π ≥ 0, Σ_j π_ij = a_i, Σ_i π_ij = b_j,
///   dual    max_{f,g}  −⟨a, f⟩ − ⟨b, g⟩ − Σ_ij exp((s_ij − g_j) − f_i),
///
/// π_ij = exp((s_ij − g_j) − f_i) at the optimum. With s = −C/ε, ε times either value is that of
/// the transport with cost C: min ⟨π, C⟩ + ε Σ π (log π − 1).
namespace attn {

/// The error is the L1 error of the marginals, Σ_i |r_i − a_i| + Σ_j |c_j − b_j|, of the plan as it
/// is shown. The usual tolerance in float32 is 1e-6 times the larger of Σ a and 1, because a plan
/// in that format cannot have better sums.
struct SinkhornOptions : Stopping {
  /// ω in [1, 2): over-relaxed iterations (SinkhornIteration::iterate). Returns to 1 when the error
  /// stops falling, so that they end where plain ones do.
  double relaxation = 1;

  /// Solves roughly with a larger ε first and divides it by four until it is the given one: each
  /// solution starts the next. Not done if an exact number of iterations is requested.
  bool anneals = false;

  /// See SchemeOptions.
  std::int64_t kept_bytes = 0;

  /// Whether to fill SinkhornSolution::errors.
  bool keeps_errors = true;
};

struct SinkhornSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 0;

  /// For the plan exp((s − g) − f) as it is shown, rounding included.
  double row_error = 0;
  double col_error = 0;

  double score = 0;  ///< ⟨π, s⟩
  double primal = 0;  ///< −⟨π, s⟩ + Σ π (log π − 1) of this π, which meets a and b up to the errors
  /// For these f and g: never above the optimum, except by the rounding of Σ π, about 1e-7 max(1,
  /// S) of it in float32 (2e-16 in float64), S = max |s_ij|.
  double dual = 0;

  /// The optimum is at most dual + gap, ≥ 0. Computed without a subtraction: for any plan π̂ that
  /// meets a and b, its primal minus the dual is KL(π̂ ‖ π), and rounding π to such a plan
  /// (Altschuler, Weed and Rigollet 2017, algorithm 2) costs at most
  ///
  ///   2 Σ_i r_i (1 − x_i)² + 2 Σ_j c_j (1 − y_j)² + E max(0, F + G + S),
  ///
  /// x_i = min(1, a_i/r_i), y_j = min(1, b_j/c_j), E = Σ_i (r_i − a_i)⁺ + Σ_j (b_j − c_j)⁺, F =
  /// max_i (f_i + ½ log a_i), G = max_j (g_j + ½ log b_j), S = max |s_ij|. If some pair of an open
  /// row and column is forbidden (the rounding needs all), or S is unknown, it is the gap of
  /// tree_gap.hpp, with a rounding of 1e-12, 1e-6 in float32. NaN if that is NaN, if an exact
  /// number of iterations was requested, or if Σ a ≠ Σ b.
  double gap = std::numeric_limits<double>::quiet_NaN();
};

struct SinkhornSolution {
  Potentials potentials;
  SinkhornSummary summary;
  std::vector<double> errors;  ///< by iteration: the L1 error of its plan, up to rounding; while
                               ///< annealing, with the ε of that iteration
};

/// Solves the problem by Sinkhorn's iterations and shows the plan to `observers`. One iteration
/// with all marginals 1 is dnas to the last bit. If the marginals cannot be met, it runs as many
/// iterations as are allowed; feasibility.hpp finds out whether they can. Throws Error(numerical)
/// for marginals whose sums exceed the range of T, and whatever the scores and observers throw.
template <class T>
SinkhornSolution solve_sinkhorn(const Scores<T>& scores, const Marginals& marginals,
                                const SinkhornOptions& options,
                                const std::vector<Observer<T>*>& observers, int threads);

/// The tolerance in force for a plan with that total; nothing if an exact number of iterations is
/// requested.
std::optional<double> tolerance_in_force(const SinkhornOptions& options, double total,
                                         std::size_t element_size);

/// The largest kept_bytes that is of use.
std::int64_t useful_sinkhorn_bytes(const SinkhornOptions& options, Index rows, Index cols,
                                   std::size_t element_size);

/// Bytes that solve_sinkhorn takes in addition to scores, observers and kept tiles.
std::int64_t sinkhorn_solver_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
