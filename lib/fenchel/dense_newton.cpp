#include "fenchel/dense_newton.hpp"

#include <algorithm>
#include <cmath>

#include "fenchel/certificate.hpp"
#include "fenchel/dual_stopping.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/eigen_map.hpp"
#include "kernel/factor.hpp"
#include "parallel/stop_flag.hpp"

namespace attn::fenchel {

DenseNewton::DenseNewton(const Templates& templates)
    : templates_(templates),
      hessian_(templates.depth(), templates.depth()),
      gradient_(1, templates.depth()),
      step_(1, templates.depth()),
      logits_(1, templates.count()),
      along_(1, templates.count()),
      search_(templates.count()) {}

std::int64_t DenseNewton::bytes(Index n, Index d) {
  return (d * d + n * d + 2 * d + 4 * n) * static_cast<std::int64_t>(sizeof(double));
}

void DenseNewton::find_step(Divergence& divergence, const double* p, const double* mean,
                            double alpha) {
  auto hessian = kernel::eigen_map(hessian_.view());
  // The error that rounding may cause in a covariance; added if the factorisation fails.
  double more = 0;
  const double reach = templates_.largest_norm();
  for (int attempt = 0; attempt < 40; ++attempt) {
    hessian.setZero();
    divergence.add_hessian(templates_.centred().read(), p, mean, hessian_.view());
    hessian.diagonal().array() += 1 / alpha + more;
    if (kernel::cholesky(hessian_.view())) break;
    more = std::max(10 * more, 1e-14 * (1 / alpha + reach * reach / divergence.temperature()));
  }
  std::copy_n(gradient_.row(0), templates_.depth(), step_.row(0));
  kernel::cholesky_solve(hessian_.read(), step_.row(0));
}

DualSummary DenseNewton::solve(Divergence& divergence, const double* target, double alpha,
                               const DualOptions& options, double* lambda, double* p,
                               double* mean) {
  const Index n = templates_.count();
  const Index d = templates_.depth();
  double* gradient = gradient_.row(0);
  double* step = step_.row(0);
  double* logits = logits_.row(0);
  double* along = along_.row(0);
  DualStopping stopping;
  bool whole_step = false;
  DualSummary summary;
  for (;; ++summary.iterations) {
    stop_if_asked();
    templates_.logits({lambda, 1, d}, logits_.view());
    const double partition = divergence.evaluate(logits, p);
    templates_.means({p, 1, n}, {mean, 1, d});
    for (Index c = 0; c < d; ++c) gradient[c] = target[c] - lambda[c] / alpha - mean[c];
    const double square = kernel::dot(lambda, lambda, d);
    const double value = square / (2 * alpha) + partition - kernel::dot(lambda, target, d);
    summary.gradient_norm = std::sqrt(kernel::dot(gradient, gradient, d));
    summary.gap = alpha / 2 * summary.gradient_norm * summary.gradient_norm;
    const double lambda_norm = std::sqrt(square);
    const DualStopping::Place place{summary.gradient_norm, summary.gap - value, lambda_norm,
                                    gradient_rounding(templates_, target, lambda_norm)};
    const auto verdict = stopping.look(options, alpha, place, whole_step);
    if (verdict == DualStopping::Verdict::done) {
      summary.status = DualStatus::converged;
      return summary;
    }
    summary.status =
        verdict == DualStopping::Verdict::stuck ? DualStatus::stalled : DualStatus::iteration_limit;
    if (verdict == DualStopping::Verdict::stuck || summary.iterations == options.max_iterations) {
      summary.convergence =
          stopping.convergence(DualStopping::needed(options, alpha, place), summary.iterations);
      return summary;
    }

    find_step(divergence, p, mean, alpha);
    templates_.logits(step_.read(), along_.view());
    whole_step = search_.is_safe(divergence, along, n);
    const double t = whole_step ? 1
                                : search_.step(divergence, {partition, logits, along, n},
                                               {lambda, target, gradient, step, d}, alpha);
    kernel::axpy(lambda, step, d, t);
  }
}

}  // namespace attn::fenchel
