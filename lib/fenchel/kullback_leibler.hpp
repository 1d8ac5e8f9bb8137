#pragma once

#include "fenchel/divergence.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::fenchel {

/// KL(p‖u): Ψ(ℓ) = log Σ u_i exp ℓ_i, whose second derivative is the covariance of p.
class KullbackLeibler final : public Divergence {
 public:
  /// `minus_log_u` is −log u (n), which must outlive the object.
  KullbackLeibler(const double* minus_log_u, Index n) : minus_log_u_(minus_log_u), n_(n) {}

  double evaluate(const double* logits, double* p) override {
    return log_partition(logits, minus_log_u_, n_, p);
  }
  void add_hessian(MatrixView<const double> templates, const double* p, const double* mean,
                   MatrixView<double> out) override;
  double curvature(const double* p, double* along) override;
  const double* closed() const override { return minus_log_u_; }
  Summed primal(const double* p) override { return relative_entropy(p, minus_log_u_, n_); }

 private:
  const double* minus_log_u_;
  Index n_;
  OwnedMatrix<double> deviations_;
};

/// Writes rows √p_i (t_i − mean) of the templates whose weight counts in a sum of squares; returns
/// their number.
Index weighted_deviations(MatrixView<const double> templates, const double* p, const double* mean,
                          MatrixView<double> out);

}  // namespace attn::fenchel
