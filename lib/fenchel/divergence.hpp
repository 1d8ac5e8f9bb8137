#pragma once

#include "fenchel/dual.hpp"
#include "fenchel/line_search.hpp"
#include "fenchel/rows.hpp"

namespace attn::fenchel {

/// −log(u_i / Σu) for i < n, +inf where u_i = 0. False: all are 0. Throws Error(input) naming a u
/// that is no finite number >= 0.
bool minus_log_preference(const double* u, Index n, double* out);

/// Ψ(ℓ) = log Σ u_i exp ℓ_i by −log u, which need not be normalised; writes p ∝ u exp ℓ.
double log_partition(const double* logits, const double* minus_log_u, Index n, double* p);

/// A number, and the sum of the magnitudes of what it was added up from, whose rounding it has.
struct Summed {
  double value = 0;
  double terms = 0;
};

/// KL(p‖u) by its definition, 0 log 0 = 0.
Summed relative_entropy(const double* p, const double* minus_log_u, Index n);

/// What the dual has of a divergence D(p‖u) for one preference: Ψ(ℓ), the convex conjugate, of
/// which p is the gradient. Not for use by several threads at once.
class Divergence {
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

  /// D(p‖u) at the logits evaluated last, from its definition.
  virtual Summed primal(const double* p) = 0;

  /// +inf for each template that has weight 0 whatever the logits; null: there is none.
  virtual const double* closed() const { return nullptr; }

  /// What the second derivative of Ψ is in relation to the logits: safe_spread times it is safe.
  virtual double temperature() const { return 1; }
};

}  // namespace attn::fenchel
