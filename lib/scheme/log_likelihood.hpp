#pragma once

#include <cmath>
#include <numbers>
#include <optional>

#include "pass/attention.hpp"
#include "score/scores.hpp"

namespace attn {

/// log (2πσ²)^(d/2), by which the density of a Gaussian in d dimensions is divided.
inline double log_gaussian_divisor(Index depth, double variance) {
  return 0.5 * static_cast<double>(depth) * std::log(2 * std::numbers::pi * variance);
}

/// The log-likelihood of the mixture of Gaussians that scores −½‖q_i − k_j‖²/σ² + bias stand for
/// (MATHEMATICS.md §2, the mixture view), with σ² = 1/scale in `depth` dimensions:
///
///   unas  Σ_i log Σ_j α_j N(q_i | k_j, σ²I) = Σ_i f_i − Lq·log (2πσ²)^(d/2) − Lq·log Σ_j e^bias_j
///   dnas  Σ_j log Σ_i β_i N(k_j | q_i, σ²I) = Σ_j g_j − Lk·log (2πσ²)^(d/2) − Lk·log Σ_i e^bias_i
///
/// The priors are proportional to e^bias, or all equal without a bias. Only queries and keys with
/// an allowed pair count; a forbidden pair adds nothing to its sum. `found` is the result of
/// attend(scores, options). Returns nothing for other schemes, for scale <= 0, and for scores with
/// another term: a soft cap, relative positions, a preference, a sink, or a bias that is not one
/// number for each component. The error is the error of the potentials, plus a rounding of their
/// sum. Throws Error(input) for a bias that is not allowed.
template <class T>
std::optional<double> gaussian_log_likelihood(const Scores<T>& scores, Index depth, double scale,
                                              const SchemeOptions& options, const Attention& found);

}  // namespace attn
