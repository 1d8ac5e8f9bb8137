#pragma once

#include <algorithm>

#include "fenchel/templates.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::fenchel {

inline void narrow(const double* from, Index n, double factor, float* to) {
  for (Index i = 0; i < n; ++i) to[i] = static_cast<float>(from[i] * factor);
}

inline void widen(const float* from, Index n, double factor, double* to) {
  for (Index i = 0; i < n; ++i) to[i] = static_cast<double>(from[i]) * factor;
}

/// Scales Newton's equations (I/α + T'ᵀST') step = gradient to fit float32, whatever the sizes of
/// templates and α: for T̂ = T'/s, s the largest norm of a template, and a gradient of norm 1
///
///   (shift·I + weight·T̂ᵀST̂) x = gradient/‖gradient‖,  step = back·‖gradient‖·x,
///
/// where the larger of shift and weight is 1.
struct ConjugateScale {
  double size = 1;
  double shift = 1;
  double weight = 0;
  double back = 1;

  ConjugateScale(const Templates& templates, double alpha) : back(alpha) {
    if (!(templates.largest_norm() > 0)) return;
    size = templates.largest_norm();
    const double ratio = alpha * size * size;
    shift = std::min(1.0, 1 / ratio);
    weight = std::min(ratio, 1.0);
    if (ratio > 1) back = 1 / (size * size);
  }

  /// T̂ in float32.
  OwnedMatrix<float> scaled(const Templates& templates, int threads) const {
    OwnedMatrix<float> made(templates.count(), templates.depth());
    constexpr Index part = 64;
    const Index parts = (templates.count() + part - 1) / part;
    parallel_for(parts, threads, [&](Index n, int) {
      const Index rows = std::min(part, templates.count() - n * part);
      narrow(templates.centred().row(n * part), rows * templates.depth(), 1 / size,
             made.row(n * part));
    });
    return made;
  }
};

/// Iterations after which a row's step is accepted as is; in exact arithmetic, min(n, d) suffice.
inline Index most_conjugate_iterations(Index n, Index d) {
  return std::clamp<Index>(std::min(n, d), 16, 150);
}

}  // namespace attn::fenchel
