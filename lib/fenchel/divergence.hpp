#pragma once

#include "fenchel/dual.hpp"
#include "fenchel/line_search.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// Writes −log(u_i / Σu) for i < n, +inf where u_i = 0. Returns false if all are 0. Throws
/// Error(input) naming a u that is not a finite number >= 0.
bool minus_log_preference(const double* u, Index n, double* out);

/// Ψ(ℓ) = log Σ u_i exp ℓ_i from −log u, which need not be normalised; writes p ∝ u exp ℓ.
double log_partition(const double* logits, const double* minus_log_u, Index n, double* p);

/// A number, and the sum of the magnitudes of its terms, which sets its rounding.
struct Summed {
  double value = 0;
  double terms = 0;
};

/// KL(p‖u) by its definition, 0 log 0 = 0.
Summed relative_entropy(const double* p, const double* minus_log_u, Index n);

/// The dual's view of a divergence D(p‖u) for one preference: Ψ(ℓ), the convex conjugate, whose
/// gradient is p. Not thread-safe.
class Divergence : public FromPool {
 public:
  virtual ~Divergence() = default;

  /// Ψ(ℓ), and writes p = ∇Ψ(ℓ) (n), which sums to 1.
  virtual double evaluate(const double* logits, double* p) = 0;

  /// Adds factor · (T'ᵀ ∇²Ψ T') to the lower triangle of out (d, d), at the logits evaluated last,
  /// whose `p` and mean of the templates are given.
  virtual void add_hessian(MatrixView<const double> templates, const double* p, const double* mean,
                           MatrixView<double> out) = 0;

  /// ⟨along, ∇²Ψ along⟩ at the logits evaluated last, whose `p` is given; overwrites along (n).
  virtual double curvature(const double* p, double* along) = 0;

  /// D(p‖u) at the logits evaluated last, by definition.
  virtual Summed primal(const double* p) = 0;

  /// +inf for each template whose weight is 0 for all logits; null: there is none.
  virtual const double* closed() const { return nullptr; }

  /// The unit of the logits for the second derivative of Ψ: moves of safe_spread times it are safe.
  virtual double temperature() const { return 1; }
};

}  // namespace attn::fenchel
