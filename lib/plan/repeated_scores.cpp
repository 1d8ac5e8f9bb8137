#include "plan/repeated_scores.hpp"

#include <algorithm>
#include <cmath>

#include "energy/table.hpp"
#include "pass/output.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

bool is_product(const EnergyDescription* energy) {
  return energy == &dot_energy() || energy == &scaled_dot_energy() || energy == &gaussian_energy();
}

// σ² of the mixture of which dnas is a step.
double first_variance(const ScoreRecipe& recipe, Index depth) {
  const double root = recipe.energy == &scaled_dot_energy() ? std::sqrt(depth) : 1;
  return root / recipe.scale;
}

template <class T>
Buffer<double> widened(MatrixView<const T> rows) {
  Buffer<double> wide(rows.rows * rows.cols);
  for (Index i = 0; i < rows.rows; ++i) {
    std::copy_n(rows.row(i), rows.cols, wide.data() + i * rows.cols);
  }
  return wide;
}

}  // namespace

void require_repetition(const Repetition& repetition, Scheme scheme, const ScoreRecipe& recipe,
                        bool vectors, bool bias_by_query, bool has_sink) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw Error(Failure::usage, message);
  };
  const bool em = scheme == Scheme::dnas;
  require(em || scheme == Scheme::unas, "repeated attention requires the scheme dnas or unas");
  require(repetition.iterations >= 1, "the number of iterations is below 1");
  require(em || !(repetition.estimates_variance || repetition.estimates_priors),
          "variances and priors are estimated under dnas only");
  require(repetition.min_variance > 0 && std::isfinite(repetition.min_variance),
          "min_variance is not a finite number > 0");
  require(repetition.estimates_variance || repetition.min_variance == Repetition().min_variance,
          "min_variance goes with estimates_variance");
  require(vectors && is_product(recipe.energy),
          "repeated attention needs q and k, and the energy gaussian, dot or scaled-dot");
  require(!has_sink, "repeated attention has no sink");
  if (!em) return;
  require(recipe.scale > 0, "expectation maximisation requires a scale > 0");
  require(!recipe.softcap && recipe.relative == RelativePositions::none,
          "expectation maximisation has neither a soft cap nor relative positions");
  require(bias_by_query,
          "expectation maximisation takes a bias of one number for each query, a log-prior");
}

template <class T>
RepeatedScores<T>::RepeatedScores(const ScoreRecipe& recipe, const HeadArrays<T>& head,
                                  const SchemeOptions& options, const Repetition& repetition,
                                  int threads)
    : recipe_(recipe), head_(head), options_(options), at_(head) {
  options.scheme == Scheme::dnas ? estimate(repetition, threads) : shift(repetition, threads);
}

template <class T>
Mixture RepeatedScores<T>::start() const {
  const Index count = head_.queries;
  Mixture mixture(count, head_.q.cols);
  const Buffer<double> wide = widened(head_.q);
  std::copy(wide.begin(), wide.end(), mixture.centre.begin());
  const double variance = first_variance(recipe_, mixture.dimension);
  std::fill(mixture.variance.begin(), mixture.variance.end(), variance);
  const auto none = make_zero_energy<double>(count, head_.keys);
  Scores<double>::Terms terms;
  terms.energy = none.get();
  terms.mask = data_.mask;
  terms.band = data_.band;
  const AllowedCounts allowed = Scores<double>(terms).allowed_counts();
  Buffer<T> bias(head_.bias == nullptr ? 0 : count);
  if (head_.bias != nullptr) head_.bias->read({0, count, 0, 1}, {bias.data(), count, 1});
  for (Index i = 0; i < count; ++i) {
    double& log = mixture.log_prior[static_cast<std::size_t>(i)];
    log = head_.bias == nullptr ? 0 : static_cast<double>(bias[i]);
    if (log == minus_infinity) {
      throw Error(Failure::input, "bias is -inf at query " + std::to_string(i) +
                                      ", expected the logarithm of a prior > 0");
    }
    if (recipe_.energy != &gaussian_energy()) {
      const double* const centre = mixture.centre.data() + i * mixture.dimension;
      for (Index c = 0; c < mixture.dimension; ++c) log += 0.5 * centre[c] * centre[c] / variance;
    }
    if (allowed.keys_of_query[static_cast<std::size_t>(i)] == 0) log = minus_infinity;
  }
  normalise_priors(mixture.log_prior);
  return mixture;
}

template <class T>
void RepeatedScores<T>::estimate(const Repetition& repetition, int threads) {
  keys_ = widened(head_.k);
  data_ = {{keys_.data(), head_.keys, head_.k.cols}, head_.mask, head_.band(recipe_)};
  last_ = start();
  for (Index t = 1; t < repetition.iterations; ++t) {
    Mixture next(last_.components, last_.dimension);
    log_likelihood_.push_back(em_step(data_, last_, repetition, next, threads));
    last_ = std::move(next);
  }
  mixture_.emplace(data_, last_);
}

template <class T>
void RepeatedScores<T>::shift(const Repetition& repetition, int threads) {
  Buffer<T> next(repetition.iterations > 1 ? head_.queries * head_.q.cols : 0);
  queries_ = Buffer<T>(next.size());
  for (Index t = 1;; ++t) {
    moved_.emplace(recipe_, at_, threads);
    if (t == repetition.iterations) return;
    Output<T> means(head_.k, {next.data(), head_.queries, head_.q.cols});
    const Attention found = attend<T>(moved_->scores(), options_, {&means}, threads);
    const auto likelihood = log_likelihood_of(recipe_, at_, moved_->scores(), options_, found);
    if (likelihood) log_likelihood_.push_back(*likelihood);
    std::swap(queries_, next);
    at_.q = {queries_.data(), head_.queries, head_.q.cols};
  }
}

template <class T>
std::vector<double> RepeatedScores<T>::log_likelihood(const Attention& found) const {
  std::vector<double> all(log_likelihood_.begin(), log_likelihood_.end());
  if (mixture_) {
    all.push_back(mixture_log_likelihood(found.potentials.col));
    return all;
  }
  const auto last = log_likelihood_of(recipe_, at_, scores(), options_, found);
  if (last) all.push_back(*last);
  return all;
}

std::int64_t repeated_scores_bytes(const ScoreRecipe& recipe, Scheme scheme,
                                   const EnergySizes& sizes, std::size_t element_size,
                                   int threads) {
  const Index n = sizes.queries;
  const Index m = sizes.keys;
  const Index d = sizes.q_depth;
  if (scheme == Scheme::dnas) {
    const std::int64_t mixture = n * (d + 2) * static_cast<std::int64_t>(sizeof(double));
    return m * d * static_cast<std::int64_t>(sizeof(double)) + 3 * mixture +
           mixture_step_bytes(n, m, d, threads);
  }
  return 2 * n * d * static_cast<std::int64_t>(element_size) +
         recipe.energy->bytes(sizes, element_size) +
         attend_bytes(scheme, n, m, element_size, threads) +
         output_bytes(scheme, n, m, d, element_size, threads);
}

template class RepeatedScores<float>;
template class RepeatedScores<double>;

}  // namespace attn
