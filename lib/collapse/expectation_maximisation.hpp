#pragma once

#include <cstdint>

#include "attnkit/collapse.hpp"
#include "scheme/mixture.hpp"
#include "tensor/view.hpp"

/// The mixtures have priors β_i > 0 that sum to 1, and in `variance` one number σ² for all
/// components, or one number σ_i² for each.
namespace attn::collapse {

/// Sets β_i ∝ exp(½‖q_i‖²/σ²), summing to 1, for the present centres and the σ² of all components.
void set_dnas_priors(Mixture& mixture);

/// One step of EM (DN 2-8, EA 2-8; MATHEMATICS.md §2, the mixture view) for the points k (N, d):
///
///   ξ_ij ∝_i β_i N(k_j | q_i, σ²I),   q_i ← Σ_j ξ_ij k_j / Σ_j ξ_ij,   β_i ← mean_j ξ_ij,
///   σ² ← max(min_variance, Σ_ij ξ_ij ‖k_j − q_i‖² / (d N)) with the new q,
///
/// from `from` to `to`, of the same shape. The first two formulas are dnas of the scores log β_i +
/// log N, whose column potentials are the likelihood. The last takes an extra pass over squared
/// differences, which avoids cancellation. With at least two components and a σ_i² for each, the
/// step is attn::em_step, where
///
///   σ_i² ← max(min_variance, Σ_j ξ_ij ‖k_j − q_i‖² / (d Σ_j ξ_ij)) with the new q.
///
/// Under Priors::dnas, which require one σ² for all, the priors of `to` belong to its centres.
/// Memory O((N + M) d). The bits do not depend on `threads`. Throws whatever attend throws (scores
/// beyond the format), and Error(numerical) if the likelihood is beyond the format.
EmStep em_step(MatrixView<const double> points, const Mixture& from, const EmOptions& options,
               Mixture& to, int threads);

/// Σ_j log Σ_i β_i N(k_j | q_i, σ_i²I), with the same bits as in em_step. Error: about 1e-15 of the
/// sum of its terms' magnitudes. Throws whatever em_step throws.
double log_likelihood(MatrixView<const double> points, const Mixture& mixture, int threads);

/// Writes the centres (M, d) that dnas with the dot product, scale 1/σ² and v = k makes of `from`,
/// which has one σ² for all components: the expected result of a step from set_dnas_priors. Returns
/// their error, relative to the largest coordinate of all points: 1e-12 + 16 roundings of the
/// largest score.
double dnas_centres(MatrixView<const double> points, const Mixture& from, MatrixView<double> out,
                    int threads);

/// Bytes that a step takes in addition to points and mixtures.
std::int64_t em_step_bytes(Index components, Index points, Index dimension, int threads);

}  // namespace attn::collapse
