#pragma once

#include <vector>

#include "mechanisms/hard_samples.hpp"

/// Mean and variance of the estimates of hard_samples.hpp from one sample (N = 1), in coordinates
/// of the energies e: λ_r (log p(y|ŝ) − b)(1_ŝ − α) + λ_e ∂H/∂e, or its soft form.
namespace attn::mechanisms {

struct HardMoments {
  std::vector<double> mean, variance;
};

/// By enumeration. Time and memory O(L), here and below. Numbers beyond the range of float64 give
/// moments that are not finite.
HardMoments exact_moments(const HardStep& step, const HardSampling& sampling, double baseline);

/// The moments of the samples, which were drawn with the same soft_share; any soft_share will do if
/// it is 0 in `sampling`. The variance is unbiased, and NaN for fewer than two samples.
HardMoments sampled_moments(const HardStep& step, const HardDraw& draw,
                            const HardSampling& sampling, double baseline);

/// ∂log_p/∂e_i = α_i (log p(y|a_i) − log_p): the mean of the estimate with λ_r = 1 alone.
std::vector<double> energy_gradient(const HardStep& step);

/// log_p = Σ α_i log p(y|a_i).
double mean_log_p(const HardStep& step);

/// b* = E[R ‖s‖²]/E‖s‖² for R = log p(y|ŝ), s = 1_ŝ − α: the baseline of least variance, summed
/// over the energies. A baseline b reduces the variance exactly if 0 < b/b* < 2. NaN if s is always
/// 0.
double best_baseline(const HardStep& step);

}  // namespace attn::mechanisms
