#include "collapse/expectation_maximisation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attnkit/error.hpp"
#include "kernel/few_rows.hpp"
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

// The scores of the points under the mixture.
class Expectation {
 public:
  Expectation(MatrixView<const double> points, const GaussianMixture& mixture)
      : variance_(mixture.log_prior.size(), mixture.variance),
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

// Subtracts their log-sum-exp.
void normalise(PooledVector<double>& logs) {
  const double largest = *std::max_element(logs.begin(), logs.end());
  Compensated sum;
  for (const double log : logs) sum.add(std::exp(log - largest));
  const double shift = largest + std::log(sum.value());
  for (double& log : logs) log -= shift;
}

}  // namespace

void set_dnas_priors(GaussianMixture& mixture) {
  const MatrixView<const double> centres = mixture.centres();
  for (Index i = 0; i < centres.rows; ++i) {
    mixture.log_prior[static_cast<std::size_t>(i)] =
        0.5 * kernel::squared_norm(centres.row(i), centres.cols) / mixture.variance;
  }
  normalise(mixture.log_prior);
}

EmStep em_step(MatrixView<const double> points, const GaussianMixture& from,
               const EmOptions& options, GaussianMixture& to, int threads) {
  const Expectation expectation(points, from);
  Output<double> means(points, {to.centre.data(), to.components, to.dimension});
  Attention found = attend<double>(expectation.scores(), dnas(), {&means}, threads);
  Potentials& potentials = found.potentials;
  EmStep step;
  step.log_likelihood = log_likelihood_of(potentials.col, from.dimension, from.variance);
  // f_i = log Σ_j ξ_ij
  for (const double log_mass : potentials.row) step.empty += std::exp(log_mass) > 0 ? 0 : 1;
  to.log_prior = from.log_prior;
  if (options.priors == Priors::estimated) {
    to.log_prior = potentials.row;
    normalise(to.log_prior);
  }
  to.variance = from.variance;
  if (options.estimates_variance) {
    SquaredDistances distances(points, to.centres());
    std::fill(potentials.row.begin(), potentials.row.end(), 0.0);
    show_weights<double>(expectation.scores(), potentials, 0, {&distances}, threads);
    const auto numbers = static_cast<double>(points.rows) * static_cast<double>(points.cols);
    const double estimate = compensated_sum(distances.sums()) / numbers;
    step.at_floor = estimate < options.min_variance;
    to.variance = step.at_floor ? options.min_variance : estimate;
  }
  if (options.priors == Priors::dnas) set_dnas_priors(to);
  return step;
}

double log_likelihood(MatrixView<const double> points, const GaussianMixture& mixture,
                      int threads) {
  const Expectation expectation(points, mixture);
  const Attention found = attend<double>(expectation.scores(), dnas(), {}, threads);
  return log_likelihood_of(found.potentials.col, mixture.dimension, mixture.variance);
}

double dnas_centres(MatrixView<const double> points, const GaussianMixture& from,
                    MatrixView<double> out, int threads) {
  const auto energy =
      make_product_energy<double>(EnergyKind::dot, from.centres(), points, 1 / from.variance);
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
  return mixture_energy_bytes(components, points, dimension) +
         attend_bytes(Scheme::dnas, components, points, number, threads) +
         output_bytes(Scheme::dnas, components, points, dimension, number, threads) +
         product_energy_bytes(EnergyKind::dot, components, points, dimension, number) +
         3 * components * static_cast<std::int64_t>(number);
}

}  // namespace attn::collapse
