#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "attnkit/tensor.hpp"

namespace attn {

/// The default limit of Sinkhorn's iterations if a tolerance is to be met.
inline constexpr Index usual_iterations = 1000;

/// The tolerance of Sinkhorn if neither it nor a number of iterations is given: 1e-6 for float32
/// (element_size 4), 1e-10 for float64.
constexpr double usual_tolerance(std::size_t element_size) {
  return element_size == sizeof(float) ? 1e-6 : 1e-10;
}

/// When Sinkhorn's iteration ends:
///
/// - only `iterations` given: after exactly that many;
/// - `tolerance` given: once the error is at most that, or after `iterations` (by default
///   usual_iterations);
/// - neither given: as with the usual tolerance.
///
/// Options have it as the member `stopping`, and define the error and its units. A solver that
/// takes a limit only has `max_iterations` instead.
struct Stopping {
  std::optional<Index> iterations;
  std::optional<double> tolerance;

  bool fixed() const { return iterations && !tolerance; }
  bool once() const { return fixed() && *iterations == 1; }
  Index most_iterations() const { return iterations.value_or(usual_iterations); }
};

/// How a computation ended, from the best outcome to the worst.
enum class SolveStatus {
  done,           ///< nothing had to converge
  converged,      ///< within the tolerance
  not_converged,  ///< iterations used up; the results are those of the last one
  infeasible,     ///< transport only: no solution exists; no iteration was made
};

/// How fast the error of an iteration that did not converge fell.
struct Convergence {
  /// The factor by which the error fell per iteration, the geometric mean over the last iterations.
  /// 1 if the error did not fall any more; NaN after a single iteration.
  double rate = std::numeric_limits<double>::quiet_NaN();

  /// The total number of iterations that reach the tolerance if the error keeps falling at this
  /// rate. Absent if the error does not fall, or if the number exceeds 10¹².
  std::optional<Index> predicted_iterations;
};

}  // namespace attn
