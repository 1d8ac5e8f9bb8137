#pragma once

#include <cstddef>

#include "attnkit/stopping.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

struct ImplicitOptions {
  double tolerance = 1e-10;  ///< of the residual
  Index iterations = 1000;   ///< the most; the system says how many passes each takes
};

/// The options for gradients through a solution that was found with `stopping`: the usual
/// tolerance, and at least as many iterations; conjugate gradients need about the square root of
/// them.
ImplicitOptions implicit_options(const Stopping& stopping, std::size_t element_size);

/// How well a linear system was solved.
struct ImplicitOutcome {
  SolveStatus status = SolveStatus::converged;  ///< or not_converged
  Index iterations = 0;

  /// |e|/|b| for the right-hand side b and the residual e, which is computed again at the end, in
  /// the norm |e|² = Σ e²/diagonal.
  double residual = 0;
};

/// A symmetric system M z = b with M ≥ 0, known by its products. Lines whose diagonal is 0 take no
/// part.
class ImplicitSystem {
 public:
  using Vector = PooledVector<double>;

  virtual ~ImplicitSystem() = default;

  /// M z.
  virtual Vector times(const Vector& z) const = 0;

  /// Makes the residual `e` orthogonal to the kernel, if there is one; only rounding has moved it.
  /// Each line must change in proportion to its diagonal, or lines with little mass would be lost
  /// to the rounding of others.
  virtual void balance(Vector& e) const = 0;

  const Vector& diagonal() const { return diagonal_; }

 protected:
  Vector diagonal_;
};

/// Solves `system` by conjugate gradients, preconditioned by the diagonal, for a b orthogonal to
/// the kernel. The part of z in the kernel is arbitrary.
ImplicitOutcome solve_implicit(const ImplicitSystem& system, const PooledVector<double>& b,
                               const ImplicitOptions& options, PooledVector<double>& z);

/// Vectors of the system's size that solve_implicit holds besides b and z, including the vectors of
/// one product.
constexpr Index implicit_vectors = 4;

}  // namespace attn
