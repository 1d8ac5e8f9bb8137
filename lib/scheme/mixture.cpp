#include "scheme/mixture.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "pass/output.hpp"
#include "scheme/log_likelihood.hpp"
#include "scheme/scheme.hpp"
#include "scheme/squared_distances.hpp"
#include "tensor/compensated.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// log β_i − log (2πσ_i²)^(d/2). Any value for a component that no point may belong to.
PooledVector<double> offsets_of(const Mixture& mixture) {
  PooledVector<double> offsets(mixture.log_prior.size(), 0.0);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (mixture.log_prior[i] == minus_infinity) continue;
    offsets[i] =
        mixture.log_prior[i] - log_gaussian_divisor(mixture.dimension, mixture.variance[i]);
  }
  return offsets;
}

template <class T>
typename Scores<T>::Terms mixture_terms(const MixtureData& data, const Energy<T>& energy) {
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  terms.mask = data.mask;
  terms.band = data.band;
  return terms;
}

}  // namespace

template <class T>
MixtureScores<T>::MixtureScores(const MixtureData& data, const Mixture& mixture)
    : offset_(offsets_of(mixture)),
      energy_(mixture.centres(), data.points, offset_, mixture.variance),
      scores_(mixture_terms<T>(data, energy_)) {}

void normalise_priors(PooledVector<double>& log_prior) {
  double largest = minus_infinity;
  for (const double log : log_prior) largest = std::max(largest, log);
  if (largest == minus_infinity) return;
  Compensated sum;
  for (const double log : log_prior) sum.add(std::exp(log - largest));
  const double shift = largest + std::log(sum.value());
  for (double& log : log_prior) log -= shift;
}

double mixture_log_likelihood(const PooledVector<double>& col_potential) {
  Compensated sum;
  for (const double potential : col_potential) {
    if (potential != minus_infinity) sum.add(potential);
  }
  if (std::isfinite(sum.value())) return sum.value();
  throw Error(Failure::numerical, "the log-likelihood lies beyond the format");
}

collapse::EmStep em_step(const MixtureData& data, const Mixture& from, const Repetition& options,
                         Mixture& to, int threads) {
  const MixtureScores<double> expectation(data, from);
  Output<double> means(data.points, {to.centre.data(), to.components, to.dimension});
  SchemeOptions dnas;
  dnas.scheme = Scheme::dnas;
  Attention found = attend<double>(expectation.scores(), dnas, {&means}, threads);
  Potentials& potentials = found.potentials;
  collapse::EmStep step;
  for (Index i = 0; i < from.components; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (found.allowed.keys_of_query[at] > 0) {
      // f_i = log Σ_j ξ_ij
      step.empty += std::exp(potentials.row[at]) > 0 ? 0 : 1;
      continue;
    }
    std::copy_n(from.centre.data() + i * from.dimension, from.dimension,
                to.centre.data() + i * from.dimension);
  }
  step.log_likelihood = mixture_log_likelihood(potentials.col);
  to.variance = from.variance;
  if (options.estimates_variance && from.dimension > 0) {
    SquaredDistances distances(data.points, to.centres());
    show_weights<double>(expectation.scores(), potentials, 0, {&distances}, threads);
    for (std::size_t i = 0; i < to.variance.size(); ++i) {
      if (found.allowed.keys_of_query[i] == 0) continue;
      const double estimate = distances.sums()[i] / static_cast<double>(from.dimension);
      step.at_floor = step.at_floor || estimate < options.min_variance;
      to.variance[i] = std::max(options.min_variance, estimate);
    }
  }
  to.log_prior = from.log_prior;
  if (options.estimates_priors) {
    to.log_prior = std::move(potentials.row);
    normalise_priors(to.log_prior);
  }
  return step;
}

std::int64_t mixture_step_bytes(Index components, Index points, Index dimension, int threads) {
  constexpr std::size_t number = sizeof(double);
  return mixture_energy_bytes(components, points, dimension) +
         attend_bytes(Scheme::dnas, components, points, number, threads) +
         output_bytes(Scheme::dnas, components, points, dimension, number, threads) +
         3 * (components + points) * static_cast<std::int64_t>(number);
}

template class MixtureScores<float>;
template class MixtureScores<double>;

}  // namespace attn
