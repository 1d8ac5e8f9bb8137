#include "mechanisms/hard_samples.hpp"

#include <algorithm>
#include <string>

#include "kernel/product.hpp"
#include "mechanisms/hard.hpp"
#include "mechanisms/rows.hpp"
#include "mechanisms/word_readout.hpp"
#include "tensor/random.hpp"

namespace attn::mechanisms {
namespace {

// ∂log p(y|Σ α_i a_i)/∂e
template <class T>
std::vector<double> soft_gradient_of(const Sequence<T>& sequence, const OwnedMatrix<T>& weights) {
  const auto a = matrix(sequence.inputs[Hard::a]);
  const WordReadout<T> readout(matrix(sequence.inputs[Hard::readout]),
                               matrix(sequence.inputs[Hard::readout_bias]),
                               *sequence.tokens[Hard::target].data);
  OwnedMatrix<T> mean(1, a.cols);
  kernel::multiply(weights.read(), a, mean.view());
  OwnedMatrix<T> of_mean = OwnedMatrix<T>::zeros(1, a.cols);
  readout.differentiate(mean.read(), {1.0}, {{}, {}, of_mean.view()});
  OwnedMatrix<T> energies(1, a.rows);
  kernel::multiply_transposed(of_mean.read(), a, energies.view());
  softmax_gradient(weights.data(), energies.data(), a.rows);
  return {energies.data(), energies.data() + a.rows};
}

constexpr Index at_once = 512;  // samples

}  // namespace

template <class T>
HardStep hard_step(const Sequence<T>& sequence) {
  const Index positions = matrix(sequence.inputs[Hard::a]).rows;
  OwnedMatrix<T> weights(1, positions);
  OwnedMatrix<T> each(1, positions);
  T log_p_soft = 0;
  Tensors<T> results(Hard::form().results.size());
  results[Hard::weights] = {weights.data(), {positions}};
  results[Hard::log_p_each] = {each.data(), {positions}};
  results[Hard::log_p_soft] = {&log_p_soft, {}};
  Hard::make<T>()->forward(sequence, results, 1);
  HardStep step;
  step.weights.assign(weights.data(), weights.data() + positions);
  step.log_p.assign(each.data(), each.data() + positions);
  step.log_p_soft = static_cast<double>(log_p_soft);
  step.soft_gradient = soft_gradient_of(sequence, weights);
  double sum = 0;
  for (const double weight : step.weights) sum += weight;
  for (double& weight : step.weights) weight /= sum;
  return step;
}

HardDraw draw(const HardStep& step, const HardSampling& sampling, Index number) {
  HardDraw made;
  made.counts.assign(step.weights.size(), 0);
  made.not_soft.assign(step.weights.size(), 0);
  // Each sequence has its own streams, so the number of samples of others does not matter.
  const std::string own = "/" + std::to_string(number);
  const RandomStream places(sampling.seed, "annotation" + own);
  const RandomStream coins(sampling.seed, "coin" + own);
  double place[at_once];
  double coin[at_once];
  coins.uniform(0, 1, coin);
  made.soft = coin[0] < sampling.soft_share;
  if (step.weights.empty()) return made;
  std::vector<double> ends(step.weights.size());
  double end = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = end += step.weights[i];
  for (Index first = 0; first < sampling.samples; first += at_once) {
    const Index count = std::min(at_once, sampling.samples - first);
    places.uniform(first, count, place);
    coins.uniform(first, count, coin);
    for (Index n = 0; n < count; ++n) {
      // The first that ends beyond the sample. As u < 1 also times `end`, its weight is above 0.
      const auto found = std::upper_bound(ends.begin(), ends.end(), place[n] * end);
      const auto drawn = static_cast<std::size_t>(found - ends.begin());
      ++made.counts[drawn];
      if (coin[n] >= sampling.soft_share) ++made.not_soft[drawn];
    }
  }
  return made;
}

double drawn_log_p(const HardStep& step, const HardDraw& draw) {
  if (step.weights.empty()) return 0;
  if (draw.soft) return step.log_p_soft;
  double sum = 0;
  double samples = 0;
  for (std::size_t i = 0; i < step.log_p.size(); ++i) {
    sum += static_cast<double>(draw.counts[i]) * step.log_p[i];
    samples += static_cast<double>(draw.counts[i]);
  }
  return sum / samples;
}

template <class T>
void add_estimate(const HardStep& step, const HardDraw& draw, const HardSampling& sampling,
                  double baseline, double factor, const Tensors<T>& grad_results) {
  const auto add = [&](T& to, double value) { to += static_cast<T>(factor * value); };
  add(*grad_results[Hard::entropy].data, sampling.entropy);
  if (draw.soft) {
    add(*grad_results[Hard::log_p_soft].data, 1);
    return;
  }
  for (std::size_t i = 0; i < step.weights.size(); ++i) {
    if (draw.counts[i] == 0) continue;
    const double share =
        static_cast<double>(draw.counts[i]) / static_cast<double>(sampling.samples);
    add(grad_results[Hard::log_p_each].data[i], share);
    // The gradient by log α_i, through α_i.
    add(grad_results[Hard::weights].data[i],
        share * sampling.reward * (step.log_p[i] - baseline) / step.weights[i]);
  }
}

template <class T>
void estimate_gradients(const Sequence<T>& sequence, const HardSampling& sampling, double baseline,
                        Index number, const Tensors<T>& gradients) {
  const HardStep step = hard_step(sequence);
  const Index positions = std::ssize(step.weights);
  OwnedMatrix<T> each = OwnedMatrix<T>::zeros(2, std::max<Index>(1, positions));
  OwnedMatrix<T> single = OwnedMatrix<T>::zeros(1, 3);
  Tensors<T> grad_results(Hard::form().results.size());
  grad_results[Hard::log_p] = {single.data(), {}};
  grad_results[Hard::log_p_soft] = {single.data() + 1, {}};
  grad_results[Hard::entropy] = {single.data() + 2, {}};
  grad_results[Hard::log_p_each] = {each.view().row(0), {positions}};
  grad_results[Hard::weights] = {each.view().row(1), {positions}};
  add_estimate(step, draw(step, sampling, number), sampling, baseline, 1, grad_results);
  Hard::make<T>()->backward(sequence, {grad_results.begin(), grad_results.end()}, gradients, 1);
}

#define ATTN_HARD_SAMPLES(T)                                                                \
  template HardStep hard_step(const Sequence<T>&);                                          \
  template void add_estimate(const HardStep&, const HardDraw&, const HardSampling&, double, \
                             double, const Tensors<T>&);                                    \
  template void estimate_gradients(const Sequence<T>&, const HardSampling&, double, Index,  \
                                   const Tensors<T>&);
ATTN_HARD_SAMPLES(float)
ATTN_HARD_SAMPLES(double)
#undef ATTN_HARD_SAMPLES

}  // namespace attn::mechanisms
