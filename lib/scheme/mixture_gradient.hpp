#pragma once

#include <span>

#include "scheme/mixture.hpp"
#include "score/weight_dropout.hpp"

/// Backward through the steps of EM, in O((M + N) d) memory: tiles of scores, weights and gradients
/// are made, used and dropped (MATHEMATICS.md §2).
namespace attn {

/// The gradients of a mixture's numbers.
struct MixtureGradients {
  Buffer<double> centre;           ///< (M, d)
  PooledVector<double> log_prior;  ///< (M)
  PooledVector<double> variance;   ///< (M)

  MixtureGradients(Index components, Index dimension);
};

/// The results that depend on the weights π_ij = ξ_ij / Σ_j ξ_ij: means of values, and masses.
struct MixtureUse {
  MatrixView<const double> values;        ///< v (N, w)
  MatrixView<const double> grad_out;      ///< ∂L/∂ Σ_j π_ij v_j (M, w), finite
  std::span<const double> grad_log_mass;  ///< ∂L/∂ log Σ_j ξ_ij (M); empty: 0
  WeightDropout dropout = {};             ///< of the weights of the means
};

/// Returns the gradients of a mixture's numbers, adds the gradients of the points to `grad_points`
/// (N, d), and writes the gradients of the values to `grad_values` (N, w) if it has data. Throws
/// whatever the scores throw.
MixtureGradients differentiate_mixture(const MixtureData& data, const Mixture& mixture,
                                       const MixtureUse& use, MatrixView<double> grad_points,
                                       MatrixView<double> grad_values, int threads);

/// Backward through em_step from `from` to `to`: takes the gradients of `to`, returns the gradients
/// of `from`, and adds the gradients of the points. A variance at its floor has gradient 0.
MixtureGradients differentiate_em_step(const MixtureData& data, const Mixture& from,
                                       const Mixture& to, const Repetition& options,
                                       const MixtureGradients& grad_to,
                                       MatrixView<double> grad_points, int threads);

/// Bytes that either function takes, with values of `width`, in addition to arguments and results.
std::int64_t mixture_gradient_bytes(Index components, Index points, Index dimension, Index width,
                                    int threads);

}  // namespace attn
