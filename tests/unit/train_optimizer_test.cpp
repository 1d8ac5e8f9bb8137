// lib/train: optimisers against their formulas, and steps in paths from rescaled weights.

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "thrown_error.hpp"
#include "train/language_batches.hpp"
#include "train/path_start.hpp"
#include "train/schedule.hpp"
#include "train/weight_optimizer.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

using Wide = long double;

// Two tensors with weight decay and one without.
Parameters three_tensors() {
  Parameters parameters;
  parameters.add_matrix("a", 5, 7, 0.3);
  parameters.add_vector("b", 4, 0.2);
  parameters.add_matrix("c", 3, 2, 0.3);
  return parameters;
}

// The formulas of Rule, number by number.
struct PlainOptimizer {
  OptimizerOptions options;
  std::vector<Wide> first, second;

  void step(const Parameters& parameters, Index number, double rate, std::vector<Wide>& w,
            std::vector<Wide> g) {
    first.resize(w.size());
    second.resize(w.size());
    Wide squares = 0;
    for (const Wide x : g) squares += x * x;
    const Wide norm = std::sqrt(squares);
    if (options.clip > 0 && norm > options.clip) {
      for (Wide& x : g) x *= options.clip / norm;
    }
    const Wide t = static_cast<Wide>(number);
    for (const Parameter& one : parameters.all()) {
      const Wide decay = one.decays ? options.decay : 0;
      std::vector<Wide> directions;
      Wide of_weights = 0;
      Wide of_directions = 0;
      for (Index n = 0; n < one.size(); ++n) {
        const auto at = static_cast<std::size_t>(one.offset + n);
        if (options.rule == Rule::sgd) {
          first[at] = options.momentum * first[at] + g[at] + decay * w[at];
          w[at] -= rate * first[at];
          continue;
        }
        first[at] = options.beta1 * first[at] + (1 - options.beta1) * g[at];
        second[at] = options.beta2 * second[at] + (1 - options.beta2) * g[at] * g[at];
        const Wide m = first[at] / (1 - std::pow(static_cast<Wide>(options.beta1), t));
        const Wide v = second[at] / (1 - std::pow(static_cast<Wide>(options.beta2), t));
        const Wide direction = m / (std::sqrt(v) + options.epsilon) + decay * w[at];
        if (options.rule == Rule::adam) w[at] -= rate * direction;
        directions.push_back(direction);
        of_weights += w[at] * w[at];
        of_directions += direction * direction;
      }
      if (options.rule != Rule::lamb) continue;
      const bool both = of_weights > 0 && of_directions > 0;
      const Wide trust = both ? std::sqrt(of_weights) / std::sqrt(of_directions) : 1;
      for (Index n = 0; n < one.size(); ++n) {
        w[static_cast<std::size_t>(one.offset + n)] -=
            rate * trust * directions[static_cast<std::size_t>(n)];
      }
    }
  }
};

// Losses of a small language model under an optimiser, from a start whose W_Q and W_K are rescaled.
std::vector<double> losses_of(Rule rule, bool in_paths, double rate, double decay, Index steps,
                              const std::vector<double>& factors) {
  TransformerOptions options = small_stack(Scheme::unas, true);
  options.layer.deviation = 0.4;
  options.layer.out_deviation = 0.4;
  options.decoder.in_paths = in_paths;
  const Transformer model(options);
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(5, weights.data());
  std::vector<PathLayer> layers;
  for (const TransformerLayer& layer : model.decoder().layers()) {
    layers.push_back({"layer", layer.self()->wq(), layer.self()->wk(), options.layer.heads});
  }
  OptimizerOptions of;
  of.rule = rule;
  of.decay = decay;
  if (decay > 0) {
    of.clip = 0.5;
    of.momentum = rule == Rule::sgd ? 0.5 : 0;
  }
  WeightOptimizer<double> optimizer(model.parameters(), of,
                                    in_paths ? layers : std::vector<PathLayer>(), 1);
  if (in_paths) set_skeletons_to_one(optimizer.in_paths()->layers(), weights.data());
  for (const PathLayer& layer : layers) {
    for (Index r = 0; r < layer.wq.rows; ++r) {
      const double factor = factors[static_cast<std::size_t>(r) % factors.size()];
      for (Index c = 0; c < layer.wq.cols; ++c) {
        layer.wq.in(weights.data())(r, c) *= factor;
        layer.wk.in(weights.data())(r, c) /= factor;
      }
    }
  }
  const auto slots = token_slots(options, {7, 5, 6, 8}, false);
  BatchPass<Transformer, double> pass(model, 1);
  std::vector<double> losses;
  for (Index n = 1; n <= steps; ++n) {
    const auto found = pass.differentiate(weights.data(), slots, {}, 1, n);
    losses.push_back(found.prediction.loss / static_cast<double>(found.prediction.count));
    const auto outcome = optimizer.step(n, rate, weights.data(), found.gradients);
    CHECK(outcome.paths.singular.empty());
  }
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double difference = std::abs(a[n] - b[n]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace

TEST_CASE_TEMPLATE("rules against their formulas", T, float, double) {
  const Parameters parameters = three_tensors();
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const Rule rule : {Rule::sgd, Rule::adam, Rule::lamb}) {
    for (const bool with_more : {false, true}) {
      CAPTURE(static_cast<int>(rule));
      CAPTURE(with_more);
      OptimizerOptions options;
      options.rule = rule;
      if (with_more) {
        options.decay = 0.1;
        options.clip = 2;
        options.momentum = rule == Rule::sgd ? 0.9 : 0;
      }
      std::vector<T> weights(static_cast<std::size_t>(parameters.size()));
      parameters.initialise(1, weights.data());
      PlainOptimizer plain{options, {}, {}};
      std::vector<Wide> want(weights.begin(), weights.end());
      WeightOptimizer<T> optimizer(parameters, options, {}, 2);
      for (Index n = 1; n <= 6; ++n) {
        std::vector<T> gradients;
        for (std::size_t k = 0; k < weights.size(); ++k) {
          gradients.push_back(static_cast<T>(normal(random)));
        }
        plain.step(parameters, n, 0.01, want, {gradients.begin(), gradients.end()});
        optimizer.step(n, 0.01, weights.data(), gradients.data());
      }
      double worst = 0;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const auto error = static_cast<double>(std::abs(weights[k] - want[k]));
        if (!(error <= worst)) worst = error;
      }
      // Six steps of a few roundings of numbers near 1.
      CHECK(worst <= 64 * std::numeric_limits<T>::epsilon());
    }
  }
}

TEST_CASE("lamb takes a trust of 1 where a norm is 0") {
  Parameters parameters;
  parameters.add_vector("zeros", 3, 0);
  std::vector<double> weights(3);
  std::vector<double> gradients = {1, -2, 3};
  OptimizerOptions options;
  options.rule = Rule::lamb;
  options.epsilon = 1e-6;
  WeightOptimizer<double> optimizer(parameters, options, {}, 1);
  optimizer.step(1, 0.5, weights.data(), gradients.data());
  for (std::size_t n = 0; n < 3; ++n) {
    CHECK(std::abs(std::abs(weights[n]) - 0.5) <= 1e-6);
  }
}

TEST_CASE("lamb in paths is refused") {
  Parameters parameters;
  const MatrixPlace wq = parameters.add_matrix("wq", 4, 6, 0.1);
  const MatrixPlace wk = parameters.add_matrix("wk", 4, 6, 0.1);
  OptimizerOptions options;
  options.rule = Rule::lamb;
  const Error error = thrown_error([&] {
    WeightOptimizer<double>(parameters, options, {{"layer", wq, wk, 2}}, 1);
  });
  CHECK(error.failure() == Failure::usage);
}

TEST_CASE("steps in paths follow the same losses from rescaled weights") {
  const std::vector<double> none = {1};
  const std::vector<double> powers = {2, -0.5, 4, -1, 0.25};
  const std::vector<double> any = {0.6, -2.9, 1.7, -0.5, 3, 1.1};
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    for (const double decay : {0.0, 0.01}) {
      CAPTURE(static_cast<int>(rule));
      CAPTURE(decay);
      const double rate = rule == Rule::sgd ? 0.1 : 1e-3;
      const auto losses = losses_of(rule, true, rate, decay, 100, none);
      CHECK(losses.back() < losses.front() - 0.05);
      CHECK(losses_of(rule, true, rate, decay, 100, powers) == losses);
      CHECK(largest_difference(losses_of(rule, true, rate, decay, 100, any), losses) <= 1e-9);
      const auto plain = losses_of(rule, false, rate, decay, 100, none);
      CHECK(largest_difference(losses_of(rule, false, rate, decay, 100, any), plain) > 1e-4);
    }
  }
}

TEST_CASE("schedules") {
  Schedule schedule;
  schedule.rate = 2;
  CHECK(rate_of(schedule, 1, 10) == 2);
  CHECK(rate_of(schedule, 10, 10) == 2);
  schedule.warm_up = 4;
  CHECK(rate_of(schedule, 1, 10) == 0.5);
  CHECK(rate_of(schedule, 4, 10) == 2);
  CHECK(rate_of(schedule, 5, 10) == 2);
  schedule.warm_up = 0;
  schedule.decay = Decay::steps;
  schedule.milestones = {0.4, 0.8};
  CHECK(rate_of(schedule, 4, 10) == 2);
  CHECK(rate_of(schedule, 5, 10) == doctest::Approx(0.2).epsilon(1e-15));
  CHECK(rate_of(schedule, 9, 10) == doctest::Approx(0.02).epsilon(1e-15));
  schedule.decay = Decay::cosine;
  schedule.warm_up = 2;
  CHECK(rate_of(schedule, 3, 10) == 2);
  CHECK(rate_of(schedule, 7, 10) == doctest::Approx(1).epsilon(1e-15));
  CHECK(rate_of(schedule, 10, 10) > 0);
  // Falls from step to step.
  for (Index n = 4; n <= 10; ++n) CHECK(rate_of(schedule, n, 10) < rate_of(schedule, n - 1, 10));
}

TEST_CASE_TEMPLATE("a language model learns a text that repeats itself", T, float, double) {
  std::vector<Index> tokens;
  for (Index n = 0; n < 200; ++n) tokens.push_back(n * n % 7);
  const CausalBatches batches(tokens, 8, 5);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
    TransformerOptions options = small_stack(scheme, true);
    options.layer.width = 16;
    options.layer.inner = 16;
    options.layer.deviation = 0.1;
    options.layer.out_deviation = 0.1;
    const Transformer model(options);
    std::vector<T> weights(static_cast<std::size_t>(model.parameters().size()));
    model.parameters().initialise(7, weights.data());
    BatchPass<Transformer, T> pass(model, 2);
    OptimizerOptions of;
    WeightOptimizer<T> optimizer(model.parameters(), of, {}, 2);
    CausalBatches shuffled = batches;
    Index number = 0;
    for (Index epoch = 0; epoch < 12; ++epoch) {
      for (Index n = 0; n < shuffled.batches(); ++n) {
        const auto slots = shuffled.training({3, epoch}, n);
        const auto found = pass.differentiate(weights.data(), slots, {0.05, 0.05}, 1, ++number);
        optimizer.step(number, 0.01, weights.data(), found.gradients);
      }
    }
    Prediction all;
    for (Index n = 0; n < shuffled.batches(); ++n) {
      all.add(pass.predict(weights.data(), shuffled.evaluation(n)));
    }
    // The text has a period of 7, and each token but 0 stands in it twice.
    CAPTURE(static_cast<int>(scheme));
    CHECK(all.loss / static_cast<double>(all.count) < 0.5);
    CHECK(all.correct > all.count * 3 / 4);
  }
}
