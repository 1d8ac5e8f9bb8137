#include "mechanisms/hard_moments.hpp"

#include <cmath>
#include <limits>
#include <numeric>

namespace attn::mechanisms {
namespace {

using Numbers = std::vector<double>;

// Σ_{j≠i} x_j, without the cancellation of Σ x − x_i if x_i is nearly the whole sum.
Numbers sums_of_others(const Numbers& x) {
  Numbers sums(x.size());
  double before = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums[i] = before;
    before += x[i];
  }
  double behind = 0;
  for (std::size_t i = x.size(); i-- > 0;) {
    sums[i] += behind;
    behind += x[i];
  }
  return sums;
}

// −α_i (log α_i + H)
Numbers entropy_gradient(const Numbers& weights) {
  double entropy = 0;
  for (const double own : weights) entropy -= own == 0 ? 0 : own * std::log(own);
  Numbers gradient;
  for (const double own : weights) {
    gradient.push_back(own == 0 ? 0 : -own * (std::log(own) + entropy));
  }
  return gradient;
}

// The moments of r_ŝ (1_ŝ − α), r = λ_r (R − b), for ŝ with the probabilities p. With m = Σ p r, d
// = r − m and q = Σ p d², the mean of coordinate k is p_k r_k − α_k m, and its variance α_k² q − 2
// α_k r_k p_k d_k + r_k² p_k (1 − p_k).
HardMoments of_score(const HardStep& step, const Numbers& p, const HardSampling& sampling,
                     double baseline) {
  const std::size_t count = p.size();
  Numbers r(count);
  double m = 0;
  for (std::size_t i = 0; i < count; ++i) {
    r[i] = sampling.reward * (step.log_p[i] - baseline);
    m += p[i] * r[i];
  }
  double q = 0;
  for (std::size_t i = 0; i < count; ++i) q += p[i] * (r[i] - m) * (r[i] - m);
  const Numbers others = sums_of_others(p);
  HardMoments made{Numbers(count), Numbers(count)};
  for (std::size_t k = 0; k < count; ++k) {
    const double own = step.weights[k];
    made.mean[k] = p[k] * r[k] - own * m;
    const double variance =
        own * own * q - 2 * own * p[k] * r[k] * (r[k] - m) + p[k] * others[k] * r[k] * r[k];
    made.variance[k] = variance < 0 ? 0 : variance;  // by rounding; NaN stays NaN
  }
  return made;
}

// The moments of the score, or with probability `share` of the soft gradient, plus the gradient of
// the entropy.
HardMoments mixed(const HardStep& step, HardMoments score, double share,
                  const HardSampling& sampling) {
  const Numbers of_entropy = entropy_gradient(step.weights);
  for (std::size_t k = 0; k < score.mean.size(); ++k) {
    const double apart = score.mean[k] - step.soft_gradient[k];
    score.variance[k] = (1 - share) * score.variance[k] + share * (1 - share) * apart * apart;
    score.mean[k] -= share * apart;
    score.mean[k] += sampling.entropy * of_entropy[k];
  }
  return score;
}

}  // namespace

HardMoments exact_moments(const HardStep& step, const HardSampling& sampling, double baseline) {
  return mixed(step, of_score(step, step.weights, sampling, baseline), sampling.soft_share,
               sampling);
}

HardMoments sampled_moments(const HardStep& step, const HardDraw& draw,
                            const HardSampling& sampling, double baseline) {
  const auto& counts = sampling.soft_share > 0 ? draw.not_soft : draw.counts;
  const auto hard = static_cast<double>(std::accumulate(counts.begin(), counts.end(), Index{0}));
  const auto all = static_cast<double>(sampling.samples);
  Numbers p(counts.size(), 0);
  for (std::size_t i = 0; i < p.size() && hard > 0; ++i) {
    p[i] = static_cast<double>(counts[i]) / hard;
  }
  HardMoments made =
      mixed(step, of_score(step, p, sampling, baseline), (all - hard) / all, sampling);
  const double unbiased = all > 1 ? all / (all - 1) : std::numeric_limits<double>::quiet_NaN();
  for (double& one : made.variance) one *= unbiased;
  return made;
}

std::vector<double> energy_gradient(const HardStep& step) {
  const double mean = mean_log_p(step);
  Numbers gradient;
  for (std::size_t i = 0; i < step.weights.size(); ++i) {
    gradient.push_back(step.weights[i] * (step.log_p[i] - mean));
  }
  return gradient;
}

double mean_log_p(const HardStep& step) {
  return std::inner_product(step.weights.begin(), step.weights.end(), step.log_p.begin(), 0.0);
}

double best_baseline(const HardStep& step) {
  const Numbers rest = sums_of_others(step.weights);  // 1 − α_i
  Numbers squares;
  for (const double own : step.weights) squares.push_back(own * own);
  const Numbers other_squares = sums_of_others(squares);
  double weighted = 0;
  double sum = 0;
  for (std::size_t i = 0; i < step.weights.size(); ++i) {
    const double square = step.weights[i] * (rest[i] * rest[i] + other_squares[i]);
    weighted += square * step.log_p[i];
    sum += square;
  }
  return weighted / sum;
}

}  // namespace attn::mechanisms
