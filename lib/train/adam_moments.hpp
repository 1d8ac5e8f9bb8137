#pragma once

#include <cmath>

#include "tensor/shape.hpp"
#include "train/optimizer_options.hpp"

namespace attn::train {

/// Adam's moments of one tensor in step number t, and the factors that correct them.
template <class T>
struct AdamMoments {
  T* m;
  T* v;
  T beta1, beta2, epsilon;
  T first_factor;   ///< 1/(1 − β₁ᵗ)
  T second_factor;  ///< 1/√(1 − β₂ᵗ)

  AdamMoments(T* first, T* second, const OptimizerOptions& options, Index number)
      : m(first),
        v(second),
        beta1(static_cast<T>(options.beta1)),
        beta2(static_cast<T>(options.beta2)),
        epsilon(static_cast<T>(options.epsilon)),
        first_factor(corrected(options.beta1, number)),
        second_factor(std::sqrt(corrected(options.beta2, number))) {}

  /// Updates the moments of number n with its gradient and returns m̂/(√v̂ + ε).
  T direction(Index n, T g) const {
    m[n] = beta1 * m[n] + (1 - beta1) * g;
    v[n] = beta2 * v[n] + (1 - beta2) * g * g;
    return first_factor * m[n] / (second_factor * std::sqrt(v[n]) + epsilon);
  }

 private:
  static T corrected(double beta, Index number) {
    return static_cast<T>(1 / (1 - std::pow(beta, static_cast<double>(number))));
  }
};

}  // namespace attn::train
