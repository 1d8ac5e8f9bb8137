#include <numeric>

#include "mechanism_check.hpp"
#include "mechanisms/hard.hpp"
#include "mechanisms/hard_moments.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Hard;
using mechanisms::HardDraw;
using mechanisms::HardMoments;
using mechanisms::HardSampling;
using mechanisms::HardStep;

namespace {

// A sequence with numbers of type T, and room for the gradients of all its inputs.
template <class T>
struct SampledSequence {
  Stored<T> inputs, gradients;
  Stored<Index> tokens;

  explicit SampledSequence(Index positions, std::uint64_t seed = 5) {
    std::mt19937_64 random(seed);
    const mechanisms::Sizes sizes = {{"L", positions}, {"D", 3}, {"H", 2}, {"A", 4}, {"V", 6}};
    const PlainSequence made = random_sequence(Hard::form(), sizes, 6, random);
    for (std::size_t n = 0; n < made.inputs.size(); ++n) {
      Values values = made.inputs[n];
      for (long double& one : values) one *= 2;
      inputs.add(values, mechanisms::shape_of(Hard::form().inputs[n].axes, sizes));
      gradients.add_room(inputs.shapes.back());
    }
    tokens.numbers.push_back(made.tokens[0]);
    tokens.shapes.push_back({});
  }

  mechanisms::Sequence<T> views() {
    return {inputs.template views<const T>(), tokens.template views<const Index>()};
  }

  // All gradients one behind the other.
  std::vector<double> all() const {
    std::vector<double> numbers;
    for (const auto& one : gradients.numbers) {
      for (const T number : one) numbers.push_back(static_cast<double>(number));
    }
    return numbers;
  }

  std::vector<double> gradient_of(Hard::Result result) {
    const T one = 1;
    mechanisms::Tensors<const T> upstream(5);
    upstream[result] = {&one, {}};
    Hard::make<T>()->backward(views(), upstream, gradients.template views<T>(), 1);
    return all();
  }

  std::vector<double> estimate(const HardSampling& sampling, double baseline, Index number) {
    estimate_gradients(views(), sampling, baseline, number, gradients.template views<T>());
    return all();
  }

  // The estimate of a draw that is given.
  std::vector<double> estimate_of(const HardDraw& draw, const HardSampling& sampling,
                                  double baseline) {
    const HardStep step = mechanisms::hard_step(views());
    const auto positions = static_cast<Index>(step.weights.size());
    Stored<T> upstream;
    for (const Shape& shape : {Shape{}, Shape{}, Shape{positions}, Shape{}, Shape{positions}}) {
      upstream.add(Values(static_cast<std::size_t>(count_of(shape)), 0), shape);
    }
    add_estimate(step, draw, sampling, baseline, 1, upstream.template views<T>());
    Hard::make<T>()->backward(views(), upstream.template views<const T>(),
                              gradients.template views<T>(), 1);
    return all();
  }
};

HardDraw only(std::size_t annotation, std::size_t positions) {
  HardDraw draw;
  draw.counts.assign(positions, 0);
  draw.counts[annotation] = 1;
  draw.not_soft = draw.counts;
  return draw;
}

HardStep some_step(Index positions, std::uint64_t seed = 5) {
  SampledSequence<double> sequence(positions, seed);
  return mechanisms::hard_step(sequence.views());
}

// The estimate of the gradient with respect to the energies from one sample.
std::vector<long double> of_sample(const HardStep& step, std::size_t s,
                                   const HardSampling& sampling, double baseline) {
  long double entropy = 0;
  for (const long double one : step.weights) entropy -= one * std::log(one);
  std::vector<long double> made;
  for (std::size_t k = 0; k < step.weights.size(); ++k) {
    const long double own = step.weights[k];
    made.push_back(sampling.reward * (static_cast<long double>(step.log_p[s]) - baseline) *
                       ((s == k ? 1 : 0) - own) -
                   sampling.entropy * own * (std::log(own) + entropy));
  }
  return made;
}

// Mean and variance of the same over all samples, with these probabilities, and the soft one.
HardMoments plain_moments(const HardStep& step, const std::vector<long double>& probabilities,
                          long double soft, const HardSampling& sampling, double baseline) {
  HardMoments made;
  for (std::size_t k = 0; k < step.weights.size(); ++k) {
    std::vector<long double> values, shares = probabilities;
    for (std::size_t s = 0; s < step.weights.size(); ++s) {
      values.push_back(of_sample(step, s, sampling, baseline)[k]);
    }
    HardSampling entropy_only = sampling;
    entropy_only.reward = 0;
    values.push_back(of_sample(step, 0, entropy_only, 0)[k] + step.soft_gradient[k]);
    shares.push_back(soft);
    long double mean = 0, variance = 0;
    for (std::size_t s = 0; s < values.size(); ++s) mean += shares[s] * values[s];
    for (std::size_t s = 0; s < values.size(); ++s) {
      variance += shares[s] * (values[s] - mean) * (values[s] - mean);
    }
    made.mean.push_back(static_cast<double>(mean));
    made.variance.push_back(static_cast<double>(variance));
  }
  return made;
}

double distance_of_all(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    worst = std::isnan(a[n] - b[n]) ? std::numeric_limits<double>::infinity()
                                    : std::max(worst, std::abs(a[n] - b[n]));
  }
  return worst;
}

double total(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

TEST_CASE_TEMPLATE("the mean over all samples is the enumerated gradient", T, float, double) {
  // In every coordinate of every input; to rounding, as the expected value, and to five standard
  // errors, as the mean of 10⁵ samples.
  const double rounding = std::is_same_v<T, double> ? 1e-13 : 1e-5;
  for (const Index positions : {1, 2, 7}) {
    SampledSequence<T> sequence(positions);
    const std::vector<double> exact = sequence.gradient_of(Hard::log_p);
    const HardStep step = mechanisms::hard_step(sequence.views());
    for (const double baseline : {0.0, -1.5, 4.0}) {
      const HardSampling one = {};
      std::vector<std::vector<double>> each;
      std::vector<double> mean(exact.size(), 0);
      for (std::size_t s = 0; s < step.weights.size(); ++s) {
        each.push_back(sequence.estimate_of(only(s, step.weights.size()), one, baseline));
        for (std::size_t n = 0; n < mean.size(); ++n) mean[n] += step.weights[s] * each[s][n];
      }
      CHECK(distance_of_all(mean, exact) < rounding);
      HardSampling many = {};
      many.samples = 100000;
      const std::vector<double> found = sequence.estimate(many, baseline, 3);
      for (std::size_t n = 0; n < found.size(); ++n) {
        double variance = 0;
        for (std::size_t s = 0; s < each.size(); ++s) {
          variance += step.weights[s] * (each[s][n] - mean[n]) * (each[s][n] - mean[n]);
        }
        CHECK(std::abs(found[n] - exact[n]) <=
              5 * std::sqrt(variance / static_cast<double>(many.samples)) + rounding);
      }
    }
  }
}

TEST_CASE_TEMPLATE("the entropy and the soft gradient in an estimate", T, float, double) {
  const double rounding = std::is_same_v<T, double> ? 1e-13 : 1e-5;
  SampledSequence<T> sequence(6);
  const std::vector<double> exact = sequence.gradient_of(Hard::log_p);
  const std::vector<double> soft = sequence.gradient_of(Hard::log_p_soft);
  const std::vector<double> entropy = sequence.gradient_of(Hard::entropy);
  HardSampling sampling = {};
  sampling.entropy = 0.3;
  sampling.soft_share = 1;
  std::vector<double> expected = soft;
  for (std::size_t n = 0; n < expected.size(); ++n) expected[n] += 0.3 * entropy[n];
  CHECK(distance_of_all(sequence.estimate(sampling, -1, 0), expected) < rounding);
  sampling.soft_share = 0;
  const HardStep step = mechanisms::hard_step(sequence.views());
  std::vector<double> mean(exact.size(), 0);
  for (std::size_t s = 0; s < step.weights.size(); ++s) {
    const auto each = sequence.estimate_of(only(s, step.weights.size()), sampling, -1);
    for (std::size_t n = 0; n < mean.size(); ++n) mean[n] += step.weights[s] * each[n];
  }
  for (std::size_t n = 0; n < expected.size(); ++n) expected[n] = exact[n] + 0.3 * entropy[n];
  CHECK(distance_of_all(mean, expected) < rounding);
}

TEST_CASE("moments of a sample are those of all samples") {
  for (const Index positions : {1, 2, 6, 40}) {
    const HardStep step = some_step(positions);
    for (const double share : {0.0, 0.3, 1.0}) {
      const HardSampling sampling = {
          .samples = 1000, .reward = 0.7, .entropy = 0.2, .soft_share = share, .seed = 1};
      const std::vector<long double> weights(step.weights.begin(), step.weights.end());
      std::vector<long double> hard = weights;
      for (long double& one : hard) one *= 1 - share;
      const HardMoments exact = exact_moments(step, sampling, -1.5);
      const HardMoments expected = plain_moments(step, hard, share, sampling, -1.5);
      CHECK(distance_of_all(exact.mean, expected.mean) < 1e-14);
      CHECK(distance_of_all(exact.variance, expected.variance) < 1e-14);
      const HardDraw drawn = draw(step, sampling, 2);
      long double soft = 1;
      for (std::size_t s = 0; s < hard.size(); ++s) {
        hard[s] = static_cast<long double>(drawn.not_soft[s]) / 1000;
        soft -= hard[s];
      }
      const HardMoments sampled = sampled_moments(step, drawn, sampling, -1.5);
      HardMoments of_draw = plain_moments(step, hard, soft, sampling, -1.5);
      for (double& one : of_draw.variance) one *= 1000.0 / 999;
      CHECK(distance_of_all(sampled.mean, of_draw.mean) < 1e-14);
      CHECK(distance_of_all(sampled.variance, of_draw.variance) < 1e-14);
      // Within five standard errors of what is expected.
      for (std::size_t k = 0; k < exact.mean.size(); ++k) {
        CHECK(std::abs(sampled.mean[k] - exact.mean[k]) <=
              5 * std::sqrt(exact.variance[k] / 1000) + 1e-14);
      }
    }
  }
}

TEST_CASE("weights that are nearly certain lose no digits of the variance") {
  HardStep step;
  step.weights = {1 - 1e-12, 1e-12};
  step.log_p = {-1, -3};
  step.soft_gradient = {0, 0};
  // α₁α₂(R₁α₂ + R₂α₁)² for two, b = 0.
  const HardMoments moments = exact_moments(step, {}, 0);
  CHECK(moments.variance[0] == doctest::Approx(9e-12).epsilon(1e-4));
  CHECK(moments.variance[1] == doctest::Approx(9e-12).epsilon(1e-4));
  CHECK(best_baseline(step) == doctest::Approx(-3).epsilon(1e-10));
}

TEST_CASE("a baseline saves variance exactly where 0 < b/b* < 2") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const HardStep step = some_step(static_cast<Index>(2 + seed % 9), seed);
    const double best = best_baseline(step);
    const double without = total(exact_moments(step, {}, 0).variance);
    const double least = total(exact_moments(step, {}, best).variance);
    for (const double ratio : {-2.0, -0.01, 0.01, 0.5, 1.0, 1.5, 1.99, 2.01, 5.0}) {
      const HardMoments with = exact_moments(step, {}, ratio * best);
      CHECK((total(with.variance) < without) == (0 < ratio && ratio < 2));
      CHECK(total(with.variance) >= least - 1e-14);
      CHECK(distance_of_all(with.mean, energy_gradient(step)) < 1e-14);
    }
  }
}

TEST_CASE("the best baseline of two annotations leaves no variance") {
  const HardStep step = some_step(2);
  CHECK(total(exact_moments(step, {}, best_baseline(step)).variance) < 1e-15);
  CHECK(total(exact_moments(step, {}, 0).variance) > 1e-3);
}

TEST_CASE("samples depend on seed, number and weights only") {
  HardStep step = some_step(5);
  step.weights = {0, 0.25, 0, 0.75, 0};
  const HardSampling sampling = {.samples = 10000, .soft_share = 0.5, .seed = 4};
  const HardDraw drawn = draw(step, sampling, 7);
  CHECK(drawn.counts[0] + drawn.counts[2] + drawn.counts[4] == 0);
  CHECK(drawn.counts[1] + drawn.counts[3] == 10000);
  CHECK(std::abs(static_cast<double>(drawn.counts[1]) - 2500) < 5 * std::sqrt(1875.0));
  CHECK(std::abs(static_cast<double>(drawn.not_soft[1] + drawn.not_soft[3]) - 5000) < 250);
  CHECK(draw(step, sampling, 7).counts == drawn.counts);
  CHECK(draw(step, sampling, 8).counts != drawn.counts);
  HardSampling other = sampling;
  other.seed = 5;
  CHECK(draw(step, other, 7).counts != drawn.counts);
  // The first samples are those of fewer; 513 and 512 lie in two blocks.
  for (const Index samples : {1, 512, 513, 9999}) {
    HardSampling fewer = sampling;
    fewer.samples = samples;
    const HardDraw first = draw(step, fewer, 7);
    fewer.samples = samples + 1;
    const HardDraw more = draw(step, fewer, 7);
    CHECK(first.soft == more.soft);
    Index added = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(more.counts[i] >= first.counts[i]);
      CHECK(more.not_soft[i] >= first.not_soft[i]);
      added += more.counts[i] - first.counts[i];
    }
    CHECK(added == 1);
  }
  Index soft = 0;
  for (Index number = 0; number < 1000; ++number) {
    HardSampling one = sampling;
    one.samples = 1;
    const HardDraw single = draw(step, one, number);
    soft += single.soft ? 1 : 0;
    // The coin of the sequence is that of its first sample.
    CHECK(total({single.not_soft.begin(), single.not_soft.end()}) == (single.soft ? 0 : 1));
  }
  CHECK(std::abs(static_cast<double>(soft) - 500) < 5 * std::sqrt(250.0));
}

TEST_CASE("the log-likelihood of a draw") {
  HardStep step = some_step(2);
  step.log_p = {-1, -3};
  step.log_p_soft = -7;
  HardDraw drawn;
  drawn.counts = {3, 1};
  CHECK(drawn_log_p(step, drawn) == doctest::Approx(-1.5));
  drawn.soft = true;
  CHECK(drawn_log_p(step, drawn) == -7);
}

TEST_CASE_TEMPLATE("no annotation, and only one", T, float, double) {
  HardSampling sampling = {};
  sampling.samples = 3;
  sampling.entropy = 2;
  for (const Index positions : {0, 1}) {
    SampledSequence<T> sequence(positions);
    const HardStep step = mechanisms::hard_step(sequence.views());
    CHECK(std::isnan(best_baseline(step)));
    CHECK(total(exact_moments(step, sampling, -1).variance) == 0);
    const auto exact = sequence.gradient_of(Hard::log_p);
    CHECK(distance_of_all(sequence.estimate(sampling, -1, 0), exact) < 1e-6);
    const HardDraw drawn = draw(step, sampling, 0);
    CHECK(drawn.counts == std::vector<Index>(static_cast<std::size_t>(positions), 3));
    if (positions == 0) CHECK(drawn_log_p(step, drawn) == 0);
  }
}

TEST_CASE("the variance of fewer than two samples is unknown") {
  const HardStep step = some_step(3);
  const HardSampling sampling = {};
  const HardMoments moments = sampled_moments(step, draw(step, sampling, 0), sampling, 0);
  CHECK(std::isnan(moments.variance[0]));
  CHECK(std::isfinite(moments.mean[0]));
}

TEST_CASE("moments beyond the range are not finite") {
  HardStep step = some_step(2);
  step.log_p = {-1e300, -2};
  CHECK(!std::isfinite(total(exact_moments(step, {}, 0).variance)));
  // What is never drawn adds nothing.
  step.weights = {0, 1};
  CHECK(total(exact_moments(step, {}, 0).variance) == 0);
}

TEST_CASE_TEMPLATE("sequences of a padded batch are those that they are alone", T, float, double) {
  const std::vector<Index> lengths = {4, 0, 7, 1, 7, 3};
  const auto count = static_cast<Index>(lengths.size());
  const mechanisms::Sizes padded = {{"L", 7}, {"D", 3}, {"H", 2}, {"A", 4}, {"V", 6}};
  SampledSequence<T> shared(1);
  Stored<T> inputs;
  Stored<Index> tokens, stored_lengths;
  const auto& form = Hard::form();
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    Shape shape = mechanisms::shape_of(form.inputs[n].axes, padded);
    const bool is_shared = form.inputs[n].kind == mechanisms::TensorForm::Kind::shared;
    if (!is_shared) shape.insert(shape.begin(), count);
    inputs.add_room(shape);
    if (is_shared) inputs.numbers.back() = shared.inputs.numbers[n];
  }
  tokens.numbers.push_back(std::vector<Index>(lengths.size(), 2));
  tokens.shapes.push_back({count});
  stored_lengths.numbers.push_back(lengths);
  stored_lengths.shapes.push_back({count});
  std::vector<HardStep> alone;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    SampledSequence<T> one(lengths[b], 10 + b);
    for (std::size_t n = 2; n < form.inputs.size(); ++n) {
      one.inputs.numbers[n] = shared.inputs.numbers[n];
    }
    one.tokens.numbers[0] = {2};
    std::copy(one.inputs.numbers[0].begin(), one.inputs.numbers[0].end(),
              inputs.numbers[0].begin() + static_cast<std::ptrdiff_t>(b * 7 * 3));
    std::copy(one.inputs.numbers[1].begin(), one.inputs.numbers[1].end(),
              inputs.numbers[1].begin() + static_cast<std::ptrdiff_t>(b * 2));
    alone.push_back(mechanisms::hard_step(one.views()));
  }
  const mechanisms::Batch<T> batch = {count, padded, inputs.template views<const T>(),
                                      tokens.template views<const Index>(),
                                      stored_lengths.template views<const Index>()};
  for (const int threads : {1, 2, 16}) {
    std::vector<HardStep> found(lengths.size());
    mechanisms::for_sequences<T>(
        form, batch, threads, [&](Index b, const mechanisms::Sequence<T>& sequence) {
          found[static_cast<std::size_t>(b)] = mechanisms::hard_step(sequence);
        });
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      CHECK(found[b].weights == alone[b].weights);
      CHECK(found[b].log_p == alone[b].log_p);
      CHECK(found[b].log_p_soft == alone[b].log_p_soft);
      CHECK(found[b].soft_gradient == alone[b].soft_gradient);
    }
  }
}
