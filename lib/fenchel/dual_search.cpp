#include "fenchel/dual_search.hpp"

#include <algorithm>
#include <cmath>

#include "fenchel/line_search.hpp"
#include "kernel/conjugate.hpp"

namespace attn::fenchel {

bool DualSearch::is_safe(const Divergence& divergence, const double* along, Index n) {
  return kernel::spread_of_open(along, divergence.closed(), n) <=
         safe_spread * divergence.temperature();
}

double DualSearch::step(Divergence& divergence, const Logits& logits, const Point& point,
                        double alpha) {
  const Index n = logits.count;
  const Index d = point.depth;
  double* moved = moved_.row(0);
  double* p = p_.row(0);
  // −D(λ + t·step) without Ψ and without the terms that do not depend on t.
  const double square = kernel::dot(point.step, point.step, d) / alpha;
  const double linear =
      kernel::dot(point.step, point.lambda, d) / alpha - kernel::dot(point.step, point.target, d);
  const Along start{logits.partition, -kernel::dot(point.gradient, point.step, d), 0};
  const double noise = 1e-13 * (std::abs(logits.partition) + std::abs(linear));
  return step_length(start, noise, [&](double t) {
    std::copy_n(logits.values, n, moved);
    kernel::axpy(moved, logits.along, n, t);
    Along now;
    now.value = divergence.evaluate(moved, p) + t * (linear + t / 2 * square);
    now.slope = linear + t * square + kernel::dot(p, logits.along, n);
    std::copy_n(logits.along, n, moved);
    now.curvature = square + divergence.curvature(p, moved);
    return now;
  });
}

}  // namespace attn::fenchel
