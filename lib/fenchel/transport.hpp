#pragma once

#include "fenchel/divergence.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// A cost of transport, checked and divided by γ: row i is the cost from source i. Shared by all
/// queries of a problem.
class ScaledCost : public FromPool {
 public:
  /// Throws Error(input) for a shape other than (n, n) and a cost that is not a number >= 0 (+inf
  /// allowed), Error(numerical) if cost/γ is beyond the format.
  ScaledCost(const TransportCost& cost, Index n);

  double gamma() const { return gamma_; }
  Index count() const { return by_source_.rows(); }
  const double* source(Index i) const { return by_source_.row(i); }

 private:
  double gamma_;
  OwnedMatrix<double> by_source_;
};

/// Entropic optimal transport from u to p (FD 37-38, with −γH(u)):
///
///   D(p‖u) = min Σ π_ti M(t,i) + γ Σ π_ti log π_ti over π >= 0 with Σ_t π_ti = u_i, Σ_i π_ti =
///   p_t.
class Transport final : public Divergence {
 public:
  /// u (n) may have any positive sum. `cost` must outlive it. Throws Error(numerical) if a source
  /// with a preference can go nowhere.
  Transport(const ScaledCost& cost, const double* u);

  double evaluate(const double* logits, double* p) override;
  void add_hessian(MatrixView<const double> templates, const double* p, const double* mean,
                   MatrixView<double> out) override;
  double curvature(const double* p, double* along) override;
  Summed primal(const double* p) override;
  double temperature() const override { return cost_.gamma(); }

 private:
  const ScaledCost& cost_;
  PooledVector<Index> sources_;      // those with u > 0
  PooledVector<double> preference_;  // of each source; sums to 1
  double entropy_ = 0;
  PooledVector<double> scaled_logits_;
  OwnedMatrix<double> conditional_;  // row i: p(t | source i)
  OwnedMatrix<double> deviations_;
};

}  // namespace attn::fenchel
