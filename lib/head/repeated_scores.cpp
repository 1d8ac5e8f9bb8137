#include "head/repeated_scores.hpp"

#include <algorithm>
#include <cmath>

#include "energy/table.hpp"
#include "head/bias_sinks.hpp"
#include "pass/output.hpp"
#include "scheme/gradient.hpp"
#include "scheme/mixture_gradient.hpp"
#include "scheme/scheme.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

bool is_product(const EnergyDescription* energy) {
  return energy == &dot_energy() || energy == &scaled_dot_energy() || energy == &gaussian_energy();
}

template <class T>
Buffer<double> widened(MatrixView<const T> rows) {
  Buffer<double> wide(rows.rows * rows.cols);
  for (Index i = 0; i < rows.rows; ++i) {
    std::copy_n(rows.row(i), rows.cols, wide.data() + i * rows.cols);
  }
  return wide;
}

// Bytes of this many steps; the number is capped at more than any memory holds.
std::int64_t bytes_of_times(Index times, std::int64_t each) {
  return static_cast<std::int64_t>(
      std::min(1e15, static_cast<double>(times) * static_cast<double>(each)));
}

template <class From, class T>
void narrow_to(const Buffer<From>& from, MatrixView<T> to) {
  if (to.data == nullptr) return;
  for (Index n = 0; n < from.size(); ++n) to.data[n] = static_cast<T>(from[n]);
}

}  // namespace

double first_variance(const ScoreRecipe& recipe, Index depth) {
  const double root = recipe.energy == &scaled_dot_energy() ? std::sqrt(depth) : 1;
  return root / recipe.scale;
}

void require_repetition(const Repetition& repetition, Scheme scheme, const ScoreRecipe& recipe,
                        std::optional<Index> depth, bool bias_by_query, bool has_sink) {
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
  require(depth && is_product(recipe.energy),
          "repeated attention needs q and k, and the energy gaussian, dot or scaled-dot");
  require(!has_sink, "repeated attention has no sink");
  if (!em) return;
  require(recipe.scale > 0, "expectation maximisation requires a scale > 0");
  require(!recipe.softcap && recipe.relative == RelativePositions::none,
          "expectation maximisation has neither a soft cap nor relative positions");
  require(bias_by_query,
          "expectation maximisation takes a bias of one number for each query, a log-prior");
  // A first step up to min_variance could lower the likelihood.
  require(!repetition.estimates_variance || *depth == 0 ||
              first_variance(recipe, *depth) >= repetition.min_variance,
          std::string("variances start at ") +
              (recipe.energy == &scaled_dot_energy() ? "sqrt(d)" : "1") +
              "/scale, which is below min_variance");
}

template <class T>
RepeatedScores<T>::RepeatedScores(const ScoreRecipe& recipe, const HeadArrays<T>& head,
                                  const SchemeOptions& options, const Repetition& repetition,
                                  bool keeps, int threads)
    : recipe_(recipe),
      head_(head),
      options_(options),
      repetition_(repetition),
      keeps_(keeps),
      at_(head) {
  if (options.scheme == Scheme::dnas) {
    estimate(threads);
  } else {
    shift(threads);
  }
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
  // A sequence without keys is not read.
  const bool biased = head_.bias != nullptr && head_.keys > 0;
  Buffer<T> bias(biased ? count : 0);
  if (biased) head_.bias->read({0, count, 0, 1}, {bias.data(), count, 1});
  for (Index i = 0; i < count; ++i) {
    double& log = mixture.log_prior[static_cast<std::size_t>(i)];
    log = biased ? static_cast<double>(bias[i]) : 0;
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
void RepeatedScores<T>::visit_times(const KeptState::Visit& visit, Index& done) {
  const auto number = [&](Index& value) { visit(std::as_writable_bytes(std::span(&value, 1))); };
  number(done);
  auto likelihoods = static_cast<Index>(log_likelihood_.size());
  number(likelihoods);
  log_likelihood_.resize(static_cast<std::size_t>(likelihoods));
  visit(std::as_writable_bytes(std::span(log_likelihood_)));
}

template <class T>
void RepeatedScores<T>::estimate(int threads) {
  keys_ = widened(head_.k);
  data_ = {{keys_.data(), head_.keys, head_.k.cols}, head_.mask, head_.band(recipe_)};
  mixtures_.reserve(static_cast<std::size_t>(keeps_ ? repetition_.iterations : 1));
  mixtures_.push_back(start());
  Index done = 0;
  KeptState state(keeper(), [&](const auto& visit) {
    visit_times(visit, done);
    Mixture& mixture = mixtures_.back();
    visit(std::as_writable_bytes(
        std::span(mixture.centre.data(), static_cast<std::size_t>(mixture.centre.size()))));
    visit(std::as_writable_bytes(std::span(mixture.log_prior)));
    visit(std::as_writable_bytes(std::span(mixture.variance)));
  });
  state.take();
  state.run([&] {
    for (; done + 1 < repetition_.iterations; ++done) {
      state.step_begins();
      Mixture next(head_.queries, head_.q.cols);
      log_likelihood_.push_back(
          em_step(data_, mixtures_.back(), repetition_, next, threads).log_likelihood);
      if (!keeps_) mixtures_.pop_back();
      mixtures_.push_back(std::move(next));
    }
    state.step_begins();  // the steps after this may be stopped, too
  });
  mixture_.emplace(data_, mixtures_.back());
}

template <class T>
void RepeatedScores<T>::shift(int threads) {
  Index done = 0;
  KeptState state(keeper(), [&](const auto& visit) {
    visit_times(visit, done);
    if (done == 0) return;
    if (moves_.empty()) {
      moves_.emplace_back(head_.queries * head_.q.cols);
      at_.q = {moves_.back().data(), head_.queries, head_.q.cols};
    }
    visit(std::as_writable_bytes(
        std::span(moves_.back().data(), static_cast<std::size_t>(moves_.back().size()))));
  });
  state.take();
  moved_.emplace(recipe_, at_, threads);
  state.run([&] {
    for (; done + 1 < repetition_.iterations; ++done) {
      state.step_begins();
      move(threads);
    }
    state.step_begins();  // the steps after this may be stopped, too
  });
}

// Moves each query to the mean of its keys.
template <class T>
void RepeatedScores<T>::move(int threads) {
  Buffer<T> next(head_.queries * head_.q.cols);
  Output<T> means(head_.k, {next.data(), head_.queries, head_.q.cols});
  const Attention found = attend<T>(moved_->scores(), options_, {&means}, threads);
  for (Index i = 0; i < head_.queries; ++i) {
    if (found.allowed.keys_of_query[static_cast<std::size_t>(i)] > 0) continue;
    std::copy_n(at_.q.row(i), at_.q.cols, next.data() + i * at_.q.cols);
  }
  const auto likelihood = log_likelihood_of(recipe_, at_, moved_->scores(), options_, found);
  if (likelihood) log_likelihood_.push_back(*likelihood);
  if (!keeps_) moves_.clear();
  moves_.push_back(std::move(next));
  at_.q = {moves_.back().data(), head_.queries, head_.q.cols};
  moved_.emplace(recipe_, at_, threads);
}

template <class T>
Buffer<double> RepeatedScores<T>::queries() const {
  return mixture_ ? widened<double>(mixture().centres()) : widened(at_.q);
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

template <class T>
void RepeatedScores<T>::differentiate(const Forward<T>& last, const RepeatedGradients<T>& gradients,
                                      int threads) const {
  if (mixture_) {
    differentiate_estimates(last, gradients, threads);
  } else {
    differentiate_shifts(last, gradients, threads);
  }
}

// Computed in float64.
template <class T>
void RepeatedScores<T>::differentiate_estimates(const Forward<T>& last,
                                                const RepeatedGradients<T>& gradients,
                                                int threads) const {
  const Index n = head_.queries;
  const Index m = head_.keys;
  const Index d = head_.q.cols;
  const Buffer<double> values = widened(last.v);
  const Buffer<double> grad_out = widened(last.grad_out);
  const Buffer<double> grad_values(gradients.v.data == nullptr ? 0 : m * last.v.cols);
  const Buffer<double> grad_points(m * d);
  const MatrixView<double> points(grad_points.data(), m, d);
  set_to_zero(points);
  MixtureUse use;
  use.values = {values.data(), m, last.v.cols};
  use.grad_out = {grad_out.data(), n, last.v.cols};
  use.dropout = last.dropout;
  const MatrixView<double> to_values(gradients.v.data == nullptr ? nullptr : grad_values.data(), m,
                                     last.v.cols);
  MixtureGradients mixture =
      differentiate_mixture(data_, mixtures_.back(), use, points, to_values, threads);
  for (std::size_t t = mixtures_.size() - 1; t > 0; --t) {
    mixture = differentiate_em_step(data_, mixtures_[t - 1], mixtures_[t], repetition_, mixture,
                                    points, threads);
  }
  const Mixture& first = mixtures_.front();
  const bool by_norm = recipe_.energy != &gaussian_energy();
  for (Index i = 0; by_norm && i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (Index c = 0; c < d; ++c) {
      mixture.centre[i * d + c] +=
          mixture.log_prior[at] * first.centre[i * d + c] / first.variance[at];
    }
  }
  narrow_to(mixture.centre, gradients.q);
  narrow_to(grad_points, gradients.k);
  narrow_to(grad_values, gradients.v);
  set_to_zero(gradients.bias);
  for (Index i = 0; gradients.bias.data != nullptr && i < n; ++i) {
    gradients.bias(gradients.bias.rows > 1 ? i : 0, 0) +=
        static_cast<T>(mixture.log_prior[static_cast<std::size_t>(i)]);
  }
}

template <class T>
void RepeatedScores<T>::differentiate_shifts(const Forward<T>& last,
                                             const RepeatedGradients<T>& gradients,
                                             int threads) const {
  const Index n = head_.queries;
  const Index m = head_.keys;
  const Index d = head_.q.cols;
  const Buffer<double> grad_keys(m * d);
  std::fill(grad_keys.begin(), grad_keys.end(), 0.0);
  const auto add = [&](const Buffer<T>& part) {
    for (Index c = 0; c < part.size(); ++c) grad_keys[c] += static_cast<double>(part[c]);
  };
  Buffer<T> grad_out(n * d);
  const Buffer<T> grad_q(n * d), by_energy(m * d), by_values(m * d);
  const auto biases = bias_sinks(recipe_, head_, gradients.bias, gradients.relative_bias);
  HeadArrays<T> at = head_;
  for (std::size_t t = moves_.size() + 1; t > 0; --t) {
    const bool is_last = t == moves_.size() + 1;
    at.q = t == 1 ? head_.q : MatrixView<const T>(moves_[t - 2].data(), n, d);
    const HeadScores<T> scores(recipe_, at, threads);
    Forward<T> forward = last;
    Attention attention;
    Buffer<T> out;
    if (!is_last) {
      out = Buffer<T>(n * d);
      Output<T> means(head_.k, {out.data(), n, d});
      attention = attend<T>(scores.scores(), options_, {&means}, threads);
      forward.attention = &attention;
      forward.v = head_.k;
      forward.out = {out.data(), n, d};
      forward.grad_out = {grad_out.data(), n, d};
      forward.dropout = {};
    }
    forward.scores = &scores.scores();
    GradientTargets<T> targets;
    targets.v = is_last ? gradients.v : MatrixView<T>(by_values.data(), m, d);
    const EnergyGradients<T> wanted{{grad_q.data(), n, d}, {by_energy.data(), m, d}, {}};
    const auto sink =
        recipe_.energy->differentiate(at.energy_arguments(recipe_.scale, threads), wanted);
    targets.energies.push_back(sink.get());
    for (const auto& bias : biases) targets.scores.push_back(bias.get());
    attn::differentiate(forward, targets, threads);
    add(by_energy);
    if (!is_last) add(by_values);
    std::copy(grad_q.begin(), grad_q.end(), grad_out.begin());
  }
  narrow_to(grad_q, gradients.q);
  narrow_to(grad_keys, gradients.k);
}

std::int64_t repeated_state_bytes(const EnergySizes& sizes) {
  return ((sizes.q_depth + 2) * sizes.queries + 2) * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t repeated_scores_bytes(const ScoreRecipe& recipe, Scheme scheme,
                                   const EnergySizes& sizes, Index keeps, std::size_t element_size,
                                   int threads) {
  const Index n = sizes.queries;
  const Index m = sizes.keys;
  const Index d = sizes.q_depth;
  if (scheme == Scheme::dnas) {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    const Index mixture = n * (d + 2);
    return bytes_of_times(keeps, mixture * number) + (m * d + 4 * mixture) * number +
           mixture_step_bytes(n, m, d, threads);
  }
  const auto element = static_cast<std::int64_t>(element_size);
  return bytes_of_times(keeps, n * d * element) + n * d * (2 * element + 8) +
         recipe.energy->bytes(sizes, element_size) +
         attend_bytes(scheme, n, m, element_size, threads) +
         output_bytes(scheme, n, m, d, element_size, threads);
}

std::int64_t repeated_gradient_bytes(const ScoreRecipe& recipe, Scheme scheme,
                                     const EnergySizes& sizes, Index v_head_dim,
                                     std::size_t element_size, int threads) {
  const Index n = sizes.queries;
  const Index m = sizes.keys;
  const Index d = sizes.q_depth;
  const Index width = std::max(v_head_dim, d + 1);
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  if (scheme == Scheme::dnas) {
    return ((2 * m + n) * v_head_dim + m * d + 3 * n * (d + 2)) * number +
           mixture_gradient_bytes(n, m, d, width, threads);
  }
  SchemeOptions options;
  options.scheme = scheme;
  return m * d * number + (4 * n * d + 2 * m * d) * static_cast<std::int64_t>(element_size) +
         recipe.energy->bytes(sizes, element_size) +
         recipe.energy->gradient_bytes(sizes, element_size, gradient_lanes(m, threads)) +
         attend_bytes(scheme, n, m, element_size, threads) +
         output_bytes(scheme, n, m, d, element_size, threads) +
         differentiate_bytes(options, {n, m, width, element_size, threads});
}

template class RepeatedScores<float>;
template class RepeatedScores<double>;

}  // namespace attn
