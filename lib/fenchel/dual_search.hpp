#pragma once

#include "fenchel/divergence.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::fenchel {

/// The step length along a step from one λ. Along a step, −D is convex and the logits are linear.
class DualSearch {
 public:
  explicit DualSearch(Index n) : moved_(1, n), p_(1, n) {}

  /// Logits at λ, and their change by a whole step.
  struct Logits {
    double partition;  ///< Ψ
    const double* values;
    const double* along;
    Index count;
  };
  /// λ, the target, and a step; `gradient` is the gradient of D.
  struct Point {
    const double* lambda;
    const double* target;
    const double* gradient;
    const double* step;
    Index depth;
  };

  /// Whether a whole step is sure to make −D smaller and should be taken.
  static bool is_safe(const Divergence& divergence, const double* along, Index n);

  /// Otherwise: the factor of a step that makes −D smaller.
  double step(Divergence& divergence, const Logits& logits, const Point& point, double alpha);

 private:
  OwnedMatrix<double> moved_, p_;
};

}  // namespace attn::fenchel
