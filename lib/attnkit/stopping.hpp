#pragma once

#include <cstdint>
#include <optional>

#include "attnkit/tensor.hpp"

namespace attn {

/// The most iterations of Sinkhorn where a tolerance is to be met and no number is given.
inline constexpr Index usual_iterations = 1000;

/// The tolerance of Sinkhorn where neither it nor a number of iterations is given: 1e-6 for float32
/// (element_size 4), 1e-10 for float64.
constexpr double usual_tolerance(std::size_t element_size) {
  return element_size == sizeof(float) ? 1e-6 : 1e-10;
}

/// When Sinkhorn's iteration ends. Only iterations: after exactly that many. A tolerance: once the
/// error is at most that, or after `iterations` (usual_iterations unless given). Neither: as with
/// the usual tolerance. What the error is, and in which units, its user says.
struct Stopping {
  std::optional<Index> iterations;
  std::optional<double> tolerance;

  bool fixed() const { return iterations && !tolerance; }
  bool once() const { return fixed() && *iterations == 1; }
  Index most_iterations() const { return iterations.value_or(usual_iterations); }
};

enum class SolveStatus {
  done,           ///< nothing had to converge
  converged,      ///< within the tolerance
  not_converged,  ///< iterations used up; the potentials are those of the last one
};

}  // namespace attn
