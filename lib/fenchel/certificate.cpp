#include "fenchel/certificate.hpp"

#include <cmath>
#include <limits>

#include "kernel/conjugate.hpp"

namespace attn::fenchel {

double gradient_rounding(const Templates& templates, const double* target, double lambda_norm) {
  const double reach = 2 * templates.largest_norm();
  const double size = std::sqrt(kernel::dot(target, target, templates.depth()));
  return std::numeric_limits<double>::epsilon() * (size + reach * (1 + reach * lambda_norm));
}

void certify(const Solution& at, double partition, double alpha, Divergence& divergence,
             DualSummary& summary) {
  double away = 0;
  for (Index c = 0; c < at.depth; ++c) {
    const double component = at.target[c] - at.mean[c];
    away += component * component;
  }
  away *= alpha / 2;
  const Summed distance = divergence.primal(at.p);
  const double linear = kernel::dot(at.lambda, at.target, at.depth);
  const double square = kernel::dot(at.lambda, at.lambda, at.depth) / (2 * alpha);
  summary.primal = away + distance.value;
  summary.dual = linear - square - partition;
  const double terms = away + distance.terms + std::abs(linear) + square + std::abs(partition);
  constexpr double rounding = std::numeric_limits<double>::epsilon() / 2;
  const double error = std::abs(summary.primal - summary.dual - summary.gap);
  summary.certificate_error = error > 0 ? error / (rounding * terms) : 0;
}

}  // namespace attn::fenchel
