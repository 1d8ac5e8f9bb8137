#include "collapse/expectation_maximisation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attnkit/error.hpp"
#include "kernel/magnitudes.hpp"
#include "pass/output.hpp"
#include "scheme/log_likelihood.hpp"
#include "scheme/scheme.hpp"
#include "scheme/squared_distances.hpp"
#include "score/mixture_energy.hpp"
#include "tensor/compensated.hpp"

namespace attn::collapse {
namespace {

double log_likelihood_of(const PooledVector<double>& col, Index dimension, double variance) {
  const auto count = static_cast<double>(col.size());
  const double found = compensated_sum(col) - count * log_gaussian_divisor(dimension, variance);
  if (std::isfinite(found)) return found;
  throw Error(Failure::numerical, "the log-likelihood lies beyond the format");
}

SchemeOptions dnas() {
  SchemeOptions options;
  options.scheme = Scheme::dnas;
  return options;
}

// The scores of the points under a mixture with one variance, without the factor of the density
// that all components share.
class Expectation {
 public:
  Expectation(MatrixView<const double> points, const Mixture& mixture)
      : variance_(mixture.log_prior.size(), mixture.variance.front()),
        energy_(mixture.centres(), points, mixture.log_prior, variance_),
        scores_(terms(energy_)) {}

  const Scores<double>& scores() const { return scores_; }

 private:
  static Scores<double>::Terms terms(const Energy<double>& energy) {
    Scores<double>::Terms terms;
    terms.energy = &energy;
    return terms;
  }

  PooledVector<double> variance_;
  MixtureEnergy<double> energy_;
  Scores<double> scores_;
};

bool has_own_variances(const Mixture& mixture) { return mixture.variance.size() > 1; }

}  // namespace

void set_dnas_priors(Mixture& mixture) {
  const MatrixView<const double> centres = mixture.centres();
  for (Index i = 0; i < centres.rows; ++i) {
    mixture.log_prior[static_cast<std::size_t>(i)] =
        0.5 * kernel::squared_norm(centres.row(i), centres.cols) / mixture.variance.front();
  }
  normalise_priors(mixture.log_prior);
}

EmStep em_step(MatrixView<const double> points, const Mixture& from, const EmOptions& options,
               Mixture& to, int threads) {
  if (has_own_variances(from)) {
    Repetition repetition;
    repetition.estimates_variance = options.estimates_variance;
    repetition.estimates_priors = options.priors == Priors::estimated;
    repetition.min_variance = options.min_variance;
    return attn::em_step({.points = points}, from, repetition, to, threads);
  }
  const Expectation expectation(points, from);
  Output<double> means(points, {to.centre.data(), to.components, to.dimension});
  Attention found = attend<double>(expectation.scores(), dnas(), {&means}, threads);
  Potentials& potentials = found.potentials;
  EmStep step;
  step.log_likelihood = log_likelihood_of(potentials.col, from.dimension, from.variance.front());
  // f_i = log Σ_j ξ_ij
  for (const double log_mass : potentials.row) step.empty += std::exp(log_mass) > 0 ? 0 : 1;
  to.log_prior = from.log_prior;
  if (options.priors == Priors::estimated) {
    to.log_prior = potentials.row;
    normalise_priors(to.log_prior);
  }
  to.variance = from.variance;
  if (options.estimates_variance) {
    SquaredDistances distances(points, to.centres());
    std::fill(potentials.row.begin(), potentials.row.end(), 0.0);
    show_weights<double>(expectation.scores(), potentials, 0, {&distances}, threads);
    const auto numbers = static_cast<double>(points.rows) * static_cast<double>(points.cols);
    const double estimate = compensated_sum(distances.sums()) / numbers;
    step.at_floor = estimate < options.min_variance;
    to.variance.front() = step.at_floor ? options.min_variance : estimate;
  }
  if (options.priors == Priors::dnas) set_dnas_priors(to);
  return step;
}

double log_likelihood(MatrixView<const double> points, const Mixture& mixture, int threads) {
  const auto potentials_of = [&](const Scores<double>& scores) {
    return attend<double>(scores, dnas(), {}, threads).potentials.col;
  };
  if (has_own_variances(mixture)) {
    const MixtureData data{.points = points};
    return mixture_log_likelihood(potentials_of(MixtureScores<double>(data, mixture).scores()));
  }
  return log_likelihood_of(potentials_of(Expectation(points, mixture).scores()), mixture.dimension,
                           mixture.variance.front());
}

double dnas_centres(MatrixView<const double> points, const Mixture& from, MatrixView<double> out,
                    int threads) {
  const auto energy = make_product_energy<double>(EnergyKind::dot, from.centres(), points,
                                                  1 / from.variance.front());
  Scores<double>::Terms terms;
  terms.energy = energy.get();
  const Scores<double> scores(terms);
  Output<double> means(points, out);
  attend<double>(scores, dnas(), {&means}, threads);
  constexpr double rounding = 0.5 * std::numeric_limits<double>::epsilon();
  return 1e-12 + 16 * rounding * energy->magnitude();
}

std::int64_t em_step_bytes(Index components, Index points, Index dimension, int threads) {
  constexpr std::size_t number = sizeof(double);
  return mixture_step_bytes(components, points, dimension, threads) +
         product_energy_bytes(EnergyKind::dot, components, points, dimension, number) +
         3 * components * static_cast<std::int64_t>(number);
}

}  // namespace attn::collapse
