#pragma once

#include <cstdint>
#include <vector>

#include "mechanisms/mechanism.hpp"

/// The gradient of log_p of hard attention, estimated from samples (REINFORCE; TN §2.5). With ŝ¹ …
/// ŝᴺ ~ α and a baseline b that does not depend on these samples:
///
///   (1/N) Σ_n [∂log p(y|ŝⁿ) + λ_r (log p(y|ŝⁿ) − b) ∂log p(ŝⁿ)] + λ_e ∂H(α)
///
/// Its mean is the gradient of log_p for λ_r = 1 and λ_e = 0, for any b. With the probability
/// soft_share, the gradient of log_p_soft replaces the mean over the samples, for all N samples of
/// a sequence at once.
namespace attn::mechanisms {

struct HardSampling {
  Index samples = 1;      ///< N >= 1
  double reward = 1;      ///< λ_r
  double entropy = 0;     ///< λ_e
  double soft_share = 0;  ///< in [0, 1]
  std::uint64_t seed = 0;
};

/// The quantities of a sequence that its samples depend on.
struct HardStep {
  std::vector<double> weights;  ///< α, with the sum 1
  std::vector<double> log_p;    ///< log p(y|a_i)
  double log_p_soft = 0;
  std::vector<double> soft_gradient;  ///< ∂log_p_soft/∂e
};

/// Throws the errors of Hard. Takes the memory of the forward pass, and O(L + D).
template <class T>
HardStep hard_step(const Sequence<T>& sequence);

/// The samples of a sequence.
struct HardDraw {
  std::vector<Index> counts;  ///< how often each annotation was drawn, with the sum N
  /// For each annotation, the samples that would not be soft if each were an estimate with N = 1.
  std::vector<Index> not_soft;
  bool soft = false;  ///< whether the sequence is; for N = 1 its only sample is then soft, too
};

/// Samples depend on the weights, the seed and the number of the sequence only: not on its place in
/// memory or on other sequences. The first N of N + 1 samples are those for N. A sequence without
/// annotations has no samples.
HardDraw draw(const HardStep& step, const HardSampling& sampling, Index number);

/// The log-likelihood that this step trains: the mean over the samples, or log_p_soft. 0 without
/// annotations.
double drawn_log_p(const HardStep& step, const HardDraw& draw);

/// Adds to the gradients with respect to the results of Hard, so that its backward pass makes
/// `factor` times the estimate. All must have data.
template <class T>
void add_estimate(const HardStep& step, const HardDraw& draw, const HardSampling& sampling,
                  double baseline, double factor, const Tensors<T>& grad_results);

/// Writes the estimate for all inputs that have data in `gradients`.
template <class T>
void estimate_gradients(const Sequence<T>& sequence, const HardSampling& sampling, double baseline,
                        Index number, const Tensors<T>& gradients);

}  // namespace attn::mechanisms
