#pragma once

#include "fenchel/divergence.hpp"
#include "fenchel/rows.hpp"

namespace attn::fenchel {

/// How far to go along a step from one λ: −D is convex along it, and its logits are linear.
class DualSearch {
 public:
  explicit DualSearch(Index n) : moved_(1, n), p_(1, n) {}

  /// Logits at λ, and what a whole step adds to them.
  struct Logits {
    double partition;  ///< Ψ
    const double* values;
    const double* along;
    Index count;
  };
  /// λ, and where it is to go: `gradient` is that of D.
  struct Point {
    const double* lambda;
    const double* target;
    const double* gradient;
    const double* step;
    Index depth;
  };

  /// Whether a whole step is sure to make −D smaller; it is then what to take.
  static bool is_safe(const Divergence& divergence, const double* along, Index n);

  /// Else: the factor of a step that does.
  double step(Divergence& divergence, const Logits& logits, const Point& point, double alpha);

 private:
  Rows<double> moved_, p_;
};

}  // namespace attn::fenchel
