#pragma once

#include <cstdint>
#include <optional>

#include "scheme/scheme.hpp"
#include "score/energy.hpp"
#include "tensor/view.hpp"

namespace attn::collapse {

/// How points attend to each other.
struct SelfAttention {
  SchemeOptions scheme;
  EnergyKind energy = EnergyKind::dot;
  double scale = 1;       ///< multiplies the energy
  bool residual = false;  ///< adds each point to its output
};

/// The outcome of a step.
struct SelfAttentionOutcome {
  SchemeSummary summary;
  /// The log-likelihood of `points` before the step, with each as the centre of a component: see
  /// gaussian_log_likelihood. None for other energies.
  std::optional<double> log_likelihood;
};

/// One step: next_i = Σ_j π_ij x_j (+ x_i with `residual`), where the points x (N, d) are queries,
/// keys and values (DN §5.2, EA E). Memory O(N d). `next` (N, d) is not `points`; without data only
/// the outcome is computed. The bits do not depend on `threads`. Throws whatever attend throws, and
/// Error(numerical) if a point leaves the format.
template <class T>
SelfAttentionOutcome attend_to_each_other(MatrixView<const T> points, const SelfAttention& options,
                                          MatrixView<T> next, int threads);

/// Bytes that a step takes in addition to `points` and `next`.
std::int64_t self_attention_bytes(const SelfAttention& options, Index points, Index dimension,
                                  std::size_t element_size, int threads);

}  // namespace attn::collapse
