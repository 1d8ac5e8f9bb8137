#pragma once

#include <cstddef>

#include "attnkit/stopping.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

struct ImplicitOptions {
  double tolerance = 1e-10;  ///< of the residual
  Index iterations = 1000;   ///< at most, see the system for the passes of each
};

/// Those of the gradients through a solution that was found with `solver`: the usual tolerance, and
/// no fewer iterations, of which conjugate gradients need about the square root.
ImplicitOptions implicit_options(const Stopping& solver, std::size_t element_size);

/// How well a linear system was solved.
struct ImplicitOutcome {
  SolveStatus status = SolveStatus::converged;  ///< or not_converged
  Index iterations = 0;

  /// |e|/|b| of the system's right-hand side b and what is left of it, e, as computed again at the
  /// end, in the norm |e|² = Σ e²/diagonal.
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

  /// Makes what is left of a right-hand side, `e`, orthogonal to the kernel, if there is one:
  /// rounding alone has moved it. Each line must change in proportion to its diagonal, or lines
  /// with little mass would be lost to the rounding of others.
  virtual void balance(Vector& e) const = 0;

  const Vector& diagonal() const { return diagonal_; }

 protected:
  Vector diagonal_;
};

/// Solves it by conjugate gradients, preconditioned by the diagonal, for a b that is orthogonal to
/// the kernel; what z has of the kernel means nothing.
ImplicitOutcome solve_implicit(const ImplicitSystem& system, const PooledVector<double>& b,
                               const ImplicitOptions& options, PooledVector<double>& z);

/// Vectors of the system's size that solve_implicit holds besides b and z, with those of one
/// product.
constexpr Index implicit_vectors = 4;

}  // namespace attn
