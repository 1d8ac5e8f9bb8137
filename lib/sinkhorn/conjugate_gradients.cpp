#include "sinkhorn/conjugate_gradients.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

// How often conjugate gradients restart from the true residual, from which rounding makes them
// drift.
constexpr int most_refinements = 4;

// Σ z²/diagonal; a line may have so little mass that its square underflows.
double square_of(const PooledVector<double>& z, const PooledVector<double>& diagonal) {
  double sum = 0;
  for (std::size_t n = 0; n < z.size(); ++n) {
    if (diagonal[n] == 0) continue;
    const double scaled = z[n] / std::sqrt(diagonal[n]);
    sum += scaled * scaled;
  }
  return sum;
}

// Adds to z until the squared residual, `left` at first, has fallen to `aim`. Counts `iterations`
// down.
void add_solution(const ImplicitSystem& system, PooledVector<double> residual, double aim,
                  PooledVector<double>& z, Index& iterations) {
  const PooledVector<double>& diagonal = system.diagonal();
  PooledVector<double> direction(z.size(), 0.0);
  double before = 0;
  for (;;) {
    const double left = square_of(residual, diagonal);
    if (!(left > aim) || iterations == 0) return;
    const double beta = before == 0 ? 0 : left / before;
    for (std::size_t n = 0; n < z.size(); ++n) {
      const double preconditioned = diagonal[n] == 0 ? 0 : residual[n] / diagonal[n];
      direction[n] = preconditioned + beta * direction[n];
    }
    const PooledVector<double> moved = system.times(direction);
    --iterations;
    double curvature = 0;
    for (std::size_t n = 0; n < z.size(); ++n) curvature += direction[n] * moved[n];
    // Rounding prevents further progress.
    if (!(curvature > 0)) return;
    for (std::size_t n = 0; n < z.size(); ++n) {
      z[n] += left / curvature * direction[n];
      residual[n] -= left / curvature * moved[n];
    }
    system.balance(residual);
    before = left;
  }
}

}  // namespace

ImplicitOptions implicit_options(const Stopping& stopping, std::size_t element_size) {
  ImplicitOptions options;
  options.tolerance = usual_tolerance(element_size);
  options.iterations = std::max(options.iterations, stopping.most_iterations());
  return options;
}

ImplicitOutcome solve_implicit(const ImplicitSystem& system, const PooledVector<double>& b,
                               const ImplicitOptions& options, PooledVector<double>& z) {
  const PooledVector<double>& diagonal = system.diagonal();
  z.assign(b.size(), 0.0);
  const double whole = square_of(b, diagonal);
  const double aim = options.tolerance * options.tolerance * whole;
  Index left = options.iterations;
  ImplicitOutcome found;
  PooledVector<double> residual = b;
  for (int n = 0; n < most_refinements && square_of(residual, diagonal) > aim && left > 0; ++n) {
    // Rounding moves the true residual away from the updated one.
    add_solution(system, residual, aim / 4, z, left);
    const PooledVector<double> reached = system.times(z);
    for (std::size_t at = 0; at < b.size(); ++at) residual[at] = b[at] - reached[at];
    system.balance(residual);
  }
  found.iterations = options.iterations - left;
  if (whole > 0) found.residual = std::sqrt(square_of(residual, diagonal) / whole);
  if (!(found.residual <= options.tolerance)) found.status = SolveStatus::not_converged;
  return found;
}

}  // namespace attn
