// lib/train: models of mechanisms: gradients against differences, padding, threads, ranks.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/alignment_model.hpp"
#include "train/batch_pass.hpp"
#include "train/coattention_model.hpp"
#include "train/decomposable_model.hpp"
#include "train/greedy_outputs.hpp"
#include "train/hard_model.hpp"
#include "train/intra_attention_model.hpp"
#include "train/language_batches.hpp"
#include "train/over_attention_model.hpp"
#include "train/structured_model.hpp"
#include "train_problem.hpp"
#include "train_ranks.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

// A model, and what its batches are like.
struct ModelCase {
  std::string name;
  std::shared_ptr<const MechanismModel> model;
  enum class Targets { each_row, one_class, word_of_source, span_of_source } targets;
  Index source_vocabulary = 0;  // 0: no sources
  Index vocabulary = 5;
  Index classes = 0;
};

constexpr Index source_symbols = 4;
constexpr Index symbols = 5;

MechanismOptions small_model(RecurrentCell cell, Index sources, Index classes) {
  return {.source_vocabulary = sources,
          .vocabulary = symbols,
          .joint = false,
          .classes = classes,
          .width = 3,
          .inner = 4,
          .cell = cell,
          .smoothing = classes == 3 ? 0.1 : 0,
          // Large enough that attention is far from uniform.
          .deviation = 0.7};
}

std::vector<ModelCase> model_cases() {
  using Targets = ModelCase::Targets;
  std::vector<ModelCase> cases;
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    const std::string suffix = cell == RecurrentCell::lstm ? " lstm" : " gru";
    const auto pairs = small_model(cell, source_symbols, 0);
    cases.push_back({"structured" + suffix,
                     std::make_shared<StructuredModel>(StructuredModelOptions{
                         small_model(cell, 0, 3), 2, cell == RecurrentCell::lstm ? 0 : 0.7}),
                     Targets::one_class, 0, symbols, 3});
    MechanismOptions joint = small_model(cell, symbols, 0);
    joint.joint = true;
    cases.push_back({"over attention" + suffix, std::make_shared<OverAttentionModel>(joint),
                     Targets::word_of_source, symbols});
    cases.push_back({"hard" + suffix, std::make_shared<HardModel>(HardModelOptions{pairs}),
                     Targets::each_row, source_symbols});
    for (const bool agrees : {false, true}) {
      const AlignmentModelOptions options = {pairs, {agrees, agrees ? 2 : 0}, agrees ? 0.8 : 0};
      cases.push_back({"alignment" + suffix + (agrees ? " with terms" : ""),
                       std::make_shared<AlignmentModel>(options), Targets::each_row,
                       source_symbols});
    }
  }
  MechanismOptions texts = small_model(RecurrentCell::lstm, symbols, 0);
  texts.joint = true;
  cases.push_back(
      {"coattention",
       std::make_shared<CoattentionModel>(CoattentionModelOptions{texts, {3, false}, 2}),
       Targets::span_of_source, symbols});
  cases.push_back({"intra attention",
                   std::make_shared<IntraAttentionModel>(small_model(RecurrentCell::lstm, 0, 0)),
                   Targets::each_row, 0});
  cases.push_back(
      {"decomposable",
       std::make_shared<DecomposableModel>(small_model(RecurrentCell::lstm, source_symbols, 2)),
       Targets::one_class, source_symbols, symbols, 2});
  return cases;
}

ModelCase hard_case(HardGradient gradient) {
  const MechanismOptions pairs = small_model(RecurrentCell::gru, source_symbols, 0);
  return {"hard, sampled", std::make_shared<HardModel>(HardModelOptions{pairs, gradient}),
          ModelCase::Targets::each_row, source_symbols};
}

// Sequences of these lengths, sources one longer; the tokens depend on the sequence's number alone.
SlotBatch mechanism_slot(const ModelCase& one, const std::vector<Index>& lengths, Index first) {
  std::vector<std::vector<Index>> sources;
  std::vector<std::vector<Index>> inputs;
  std::vector<std::vector<Index>> targets;
  SlotBatch slot;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    std::mt19937_64 random(static_cast<std::uint64_t>(first) + n);
    const auto draw = [&](Index below) {
      return static_cast<Index>(random() % static_cast<std::uint64_t>(below));
    };
    sources.emplace_back();
    inputs.emplace_back();
    targets.emplace_back();
    for (Index i = 0; i < lengths[n]; ++i) {
      inputs.back().push_back(draw(one.vocabulary));
      targets.back().push_back(draw(one.vocabulary));
    }
    for (Index i = 0; i <= lengths[n] && one.source_vocabulary > 0; ++i) {
      sources.back().push_back(draw(one.source_vocabulary));
    }
    if (one.targets == ModelCase::Targets::each_row) continue;
    if (one.targets == ModelCase::Targets::span_of_source) {
      const Index last = draw(std::ssize(sources.back()));
      for (const Index position : {draw(last + 1), last}) {
        slot.targets.rows.push_back(static_cast<Index>(n));
        slot.targets.tokens.push_back(position);
      }
      continue;
    }
    slot.targets.rows.push_back(static_cast<Index>(n));
    slot.targets.tokens.push_back(
        one.targets == ModelCase::Targets::one_class
            ? draw(one.classes)
            : sources.back()[static_cast<std::size_t>(draw(std::ssize(sources.back())))]);
  }
  slot.input = padded_rows(inputs);
  if (one.source_vocabulary > 0) slot.source = padded_rows(sources);
  if (one.targets == ModelCase::Targets::each_row) slot.targets = row_targets(targets, slot.input);
  return slot;
}

std::vector<double> started(const MechanismModel& model) {
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  return weights;
}

}  // namespace

TEST_CASE("gradients of models of mechanisms") {
  for (const ModelCase& one : model_cases()) {
    CAPTURE(one.name);
    const std::vector<SlotBatch> slots = {mechanism_slot(one, {4, 1, 3}, 0),
                                          mechanism_slot(one, {2}, 7)};
    for (const double dropout : {0.0, 0.2}) {
      // A vector that dropout makes 0 lies at the kink of ReLU, where there is no gradient.
      if (one.name == "decomposable" && dropout > 0) continue;
      CAPTURE(dropout);
      CHECK(largest_gradient_error<MechanismModel>(*one.model, slots, dropout) <= difference_error);
    }
  }
}

TEST_CASE("a padded slot of a mechanism's model has the predictions of its sequences") {
  for (const ModelCase& one : model_cases()) {
    CAPTURE(one.name);
    const std::vector<double> weights = started(*one.model);
    const std::vector<Index> lengths = {4, 1, 3};
    BatchPass<MechanismModel, double> pass(*one.model, 1);
    const auto together = pass.predict(weights.data(), {mechanism_slot(one, lengths, 0)});
    MechanismPrediction sum;
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      sum.add(
          pass.predict(weights.data(), {mechanism_slot(one, {lengths[n]}, static_cast<Index>(n))}));
    }
    CHECK(together.count == sum.count);
    CHECK(together.correct == sum.correct);
    CHECK(together.count > 0);
    CHECK(together.figures.size() == sum.figures.size());
    for (const auto& [name, figure] : together.figures) {
      CHECK(figure.count == sum.figures[name].count);
      CHECK(std::abs(figure.mean() - sum.figures[name].mean()) <= 1e-13);
    }
    // The order of sums.
    CHECK(std::abs(together.loss - sum.loss) <= 1e-13 * sum.loss);
    CHECK(std::abs(together.smoothed - sum.smoothed) <= 1e-13 * std::abs(sum.loss));
  }
}

TEST_CASE("the mean of sampled gradients of hard attention is the enumerated one") {
  const ModelCase exact = hard_case(HardGradient::enumeration);
  const std::vector<SlotBatch> slots = {mechanism_slot(exact, {2, 1}, 0),
                                        mechanism_slot(exact, {3}, 7)};
  const std::vector<double> weights = started(*exact.model);
  BatchPass<MechanismModel, double> pass(*exact.model, 1);
  const auto want = pass.differentiate(weights.data(), slots, {}, 5, 1);
  double loss_of_samples = 0;
  std::vector<double> variances;
  for (const HardGradient gradient : {HardGradient::sampled, HardGradient::sampled_baseline}) {
    const ModelCase sampled = hard_case(gradient);
    const Parameters& parameters = sampled.model->parameters();
    std::vector<double> own = started(*sampled.model);
    // Any baseline will do; this one is near the mean of log p.
    if (const auto place = sampled.model->baseline()) {
      own[static_cast<std::size_t>(*place)] = -want.prediction.objective();
    }
    BatchPass<MechanismModel, double> estimates(*sampled.model, 1);
    const auto size = static_cast<std::size_t>(parameters.size());
    std::vector<double> sums(size), squares(size);
    const Index steps = sanitized ? 300 : 4000;
    loss_of_samples = 0;
    for (Index number = 1; number <= steps; ++number) {
      const auto found = estimates.differentiate(own.data(), slots, {}, 5, number);
      CHECK(found.prediction.loss == want.prediction.loss);
      loss_of_samples += found.prediction.smoothed / static_cast<double>(steps);
      for (std::size_t n = 0; n < size; ++n) {
        sums[n] += found.gradients[n];
        squares[n] += found.gradients[n] * found.gradients[n];
      }
    }
    CHECK(std::abs(loss_of_samples - want.prediction.loss) <= 0.05 * want.prediction.loss);
    double variance = 0;
    double largest = 0;  // gradient in standard errors
    const auto count = static_cast<double>(steps);
    // The model of the exact gradient has the same tensors, and no baseline, which comes last.
    CHECK(exact.model->parameters().size() + (sampled.model->baseline() ? 1 : 0) ==
          parameters.size());
    for (Index n = 0; n < exact.model->parameters().size(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      const double mean = sums[at] / count;
      const double of_one = std::max(0.0, squares[at] / count - mean * mean);
      const double error = std::sqrt(of_one / count);
      CHECK(std::abs(mean - want.gradients[n]) <= 5 * error + 1e-12);
      variance += of_one;
      if (error > 0) largest = std::max(largest, std::abs(want.gradients[n]) / error);
    }
    CHECK(largest > 30);
    if (sampled.model->baseline()) CHECK(sums.back() == 0);
    variances.push_back(variance);
  }
  CHECK(variances[1] < variances[0]);
  CHECK(next_baseline(-2, -1) == doctest::Approx(-1.9).epsilon(1e-15));
}

TEST_CASE_TEMPLATE("no bit of a step of a mechanism's model depends on threads or ranks", T, float,
                   double) {
  std::vector<ModelCase> cases = model_cases();
  cases.push_back(hard_case(HardGradient::sampled_baseline));
  for (const ModelCase& one : cases) {
    CAPTURE(one.name);
    std::vector<SlotBatch> slots;
    for (Index n = 0; n < 8; ++n) slots.push_back(mechanism_slot(one, {1 + n % 4, 2}, 10 * n));
    std::vector<T> weights(static_cast<std::size_t>(one.model->parameters().size()));
    one.model->parameters().initialise(3, weights.data());
    std::vector<T> first;
    for (const int threads : {1, 3, 8}) {
      BatchPass<MechanismModel, T> pass(*one.model, threads);
      const auto found = pass.differentiate(weights.data(), slots, {0.1, 0}, 5, 1);
      const std::vector<T> gradients(found.gradients, found.gradients + weights.size());
      if (first.empty()) first = gradients;
      CAPTURE(threads);
      CHECK(gradients == first);
    }
    check_ranks_of<T>(*one.model, slots);
  }
}

TEST_CASE("the scores of the next word are those of the loss") {
  for (const ModelCase& one : model_cases()) {
    if (one.name.find("alignment") == std::string::npos &&
        one.name.find("hard") == std::string::npos)
      continue;
    CAPTURE(one.name);
    const std::vector<double> weights = started(*one.model);
    Slot<double> slot;
    slot.weights = weights.data();
    SlotBatch batch = mechanism_slot(one, {3, 1, 4}, 0);
    const OwnedMatrix<double> scores = one.model->next_scores(slot, batch);
    CHECK(scores.rows() == 3);
    const std::vector<Index> last = {2, 4, 11};
    for (Index n = 0; n < 3; ++n) {
      double sum = 0;
      for (Index y = 0; y < symbols; ++y) sum += std::exp(scores.view()(n, y));
      const double* const row = scores.view().row(n);
      const Index best = std::max_element(row, row + symbols) - row;
      for (Index y = 0; y < symbols; ++y) {
        batch.targets = {{last[static_cast<std::size_t>(n)]}, {y}};
        const Prediction found = one.model->predict(slot, batch);
        const double log_p = scores.view()(n, y) - std::log(sum);
        CHECK(found.correct == (y == best ? 1 : 0));
        if (one.name.starts_with("hard")) {
          // Jensen: the mean of log p is at most the log of the mean.
          CHECK(-found.loss <= log_p + 1e-12);
          CHECK(std::abs(sum - 1) <= 1e-12);
        } else {
          CHECK(std::abs(-found.loss - log_p) <= 1e-12);
        }
      }
    }
  }
}

TEST_CASE("weights of the attention to the source make the predictions") {
  for (const ModelCase& one : model_cases()) {
    CAPTURE(one.name);
    const std::vector<double> weights = started(*one.model);
    Slot<double> slot;
    slot.weights = weights.data();
    const SlotBatch batch = mechanism_slot(one, {3, 1, 4}, 0);
    if (one.targets != ModelCase::Targets::each_row || one.source_vocabulary == 0) {
      CHECK_THROWS_AS(one.model->source_weights(slot, batch), std::logic_error);
      continue;
    }
    const auto found = one.model->source_weights(slot, batch);
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == (one.name.starts_with("hard") ? "hard" : "alignment"));
    CHECK(found[0].heads == 0);
    const Index places = batch.source.sequences.length;
    CHECK(found[0].weights.cols() == 4 * places);
    for (Index n = 0; n < 3; ++n) {
      for (Index j = 0; j < batch.input.view().own_length(n); ++j) {
        double sum = 0;
        for (Index i = 0; i < batch.source.view().own_length(n); ++i) {
          sum += found[0].weights.view()(n, j * places + i);
        }
        CHECK(std::abs(sum - 1) <= 1e-13);
      }
    }
  }
}

TEST_CASE("the penalty of structured attention is in the smoothed loss alone") {
  const ModelCase one = model_cases()[0];
  std::vector<double> losses;
  for (const double penalty : {0.0, 0.5}) {
    const StructuredModel model({small_model(RecurrentCell::lstm, 0, 3), 2, penalty});
    const std::vector<double> weights = started(model);
    Slot<double> slot;
    slot.weights = weights.data();
    const MechanismPrediction found = model.predict(slot, mechanism_slot(one, {4, 2}, 0));
    losses.push_back(found.loss);
    // For two rows of A, |AA' − I|² = Σ (diagonal − 1)² + 2 (off-diagonal)².
    CHECK(found.figures.at("diagonal").mean() > 0);
    CHECK(found.figures.at("off_diagonal").mean() > 0);
    if (penalty > 0) {
      const StructuredModel plain({small_model(RecurrentCell::lstm, 0, 3), 2, 0});
      const Prediction without = plain.predict(slot, mechanism_slot(one, {4, 2}, 0));
      CHECK(found.smoothed > without.smoothed);
    }
  }
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("greedy outputs are the best next words, whatever else is computed") {
  const AlignmentModel model({small_model(RecurrentCell::gru, source_symbols, 0), {true, 1}, 0});
  const std::vector<double> weights = started(model);
  const std::vector<std::vector<Index>> sources = {{1, 2, 3}, {0}, {3, 3, 1, 2, 0}};
  const OutputOptions options = {.start = 0, .end = 1, .length = 6, .beam = 1};
  const auto outputs = greedy_outputs(model, weights.data(), sources, options, 2);
  for (const auto& found :
       on_ranks(2, [&] { return greedy_outputs(model, weights.data(), sources, options, 1); })) {
    CHECK(found == outputs);
  }
  Slot<double> slot;
  slot.weights = weights.data();
  for (std::size_t n = 0; n < sources.size(); ++n) {
    CHECK(greedy_outputs(model, weights.data(), {sources[n]}, options, 1).front() == outputs[n]);
    std::vector<Index> prefix = {options.start};
    for (std::size_t t = 0; t <= outputs[n].size() && t < 6; ++t) {
      SlotBatch batch;
      batch.source = padded_rows({sources[n]});
      batch.input = padded_rows({prefix});
      const OwnedMatrix<double> scores = model.next_scores(slot, batch);
      const double* const after_start = scores.view().row(0) + 1;
      const Index best =
          1 + (std::max_element(after_start, after_start + symbols - 1) - after_start);
      CHECK(best == (t < outputs[n].size() ? outputs[n][t] : options.end));
      prefix.push_back(best);
    }
  }
}
