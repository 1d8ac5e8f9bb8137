// lib/train: batches of scenes with questions, and what a model learns of them.

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "thrown_error.hpp"
#include "train/batch_pass.hpp"
#include "train/scene_batches.hpp"
#include "train/view_model.hpp"
#include "train/weight_optimizer.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

// Two views of up to three boxes of five features; three kinds, two colours, up to four objects.
SceneData random_scenes(Index scenes) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> unit;
  const auto below = [&](Index n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  SceneData data;
  data.views = 2;
  data.boxes = 3;
  data.width = 5;
  data.object_kinds = 3;
  data.colours = 2;
  data.objects = 4;
  for (Index n = 0; n < scenes; ++n) {
    const std::int64_t kind = below(2);
    data.kinds.push_back(kind);
    data.arguments.push_back(below(kind == 0 ? 3 : 2));
    data.answers.push_back(below(kind == 0 ? 2 : 5));
    for (Index v = 0; v < 2; ++v) data.counts.push_back(below(4));
    for (Index k = 0; k < 30; ++k) data.features.push_back(unit(random));
  }
  return data;
}

}  // namespace

TEST_CASE("a batch of scenes holds every scene once") {
  const SceneData data = random_scenes(23);
  SceneBatches batches(data, 10);
  CHECK(batches.batches() == 3);
  CHECK(batches.vocabulary() == 7);
  CHECK(batches.answers() == 7);
  const Epoch epoch{7, 2};
  const std::vector<Index> order = epoch_order(23, epoch);
  for (const bool training : {false, true}) {
    std::size_t next = 0;
    for (Index number = 0; number < 3; ++number) {
      for (const ViewBatch& slot :
           training ? batches.training(epoch, number) : batches.evaluation(number)) {
        for (Index n = 0; n < slot.target_count(); ++n, ++next) {
          const auto at = static_cast<std::size_t>(n);
          const Index scene = training ? order[next] : static_cast<Index>(next);
          const auto s = static_cast<std::size_t>(scene);
          const bool colour = data.kinds[s] == 0;
          CHECK(slot.kinds[at] == data.kinds[s]);
          CHECK(slot.questions[2 * at] == data.kinds[s]);
          CHECK(slot.questions[2 * at + 1] == (colour ? 2 : 5) + data.arguments[s]);
          CHECK(slot.targets.rows[at] == n);
          CHECK(slot.targets.tokens[at] == (colour ? 0 : 2) + data.answers[s]);
          for (std::size_t v = 0; v < 2; ++v) {
            const Boxes& boxes = slot.views[v];
            CHECK(boxes.sequences.length == 3);
            CHECK(boxes.lengths[at] == data.counts[2 * s + v]);
            const auto got = boxes.features.begin() + n * 15;
            const auto want = data.features.begin() + (2 * scene + static_cast<Index>(v)) * 15;
            CHECK(std::equal(got, got + 15, want));
          }
        }
      }
    }
    CHECK(next == 23);
  }
}

TEST_CASE("scenes that do not fit are refused") {
  const auto refusal = [](const std::function<void(SceneData&)>& spoil) {
    SceneData data = random_scenes(4);
    data.kinds[2] = 0;
    data.arguments[2] = 0;
    data.answers[2] = 0;
    spoil(data);
    const Error error = thrown_error([&] { const SceneBatches batches(data, 2); });
    CHECK(error.failure() == Failure::input);
    return std::string(error.what());
  };
  CHECK(refusal([](SceneData& d) { d = SceneData(); }) == "there are no scenes");
  CHECK(refusal([](SceneData& d) { d.features.pop_back(); }) ==
        "the scenes have 119 features, expected 120");
  CHECK(refusal([](SceneData& d) { d.counts.push_back(1); }) ==
        "the scenes have 9 counts of boxes, expected 8");
  CHECK(refusal([](SceneData& d) { d.answers.pop_back(); }) ==
        "the scenes have 3 answers, expected 4");
  CHECK(refusal([](SceneData& d) { d.kinds[2] = 2; }) ==
        "the kind of the question of scene 2 is 2, expected 0 to 1");
  CHECK(refusal([](SceneData& d) { d.arguments[2] = 3; }) ==
        "the argument of the question of scene 2 is 3, expected 0 to 2");
  CHECK(refusal([](SceneData& d) { d.answers[2] = 2; }) ==
        "the answer of scene 2 is 2, expected 0 to 1");
  CHECK(refusal([](SceneData& d) { d.counts[5] = -1; }) ==
        "the number of boxes of scene 2 is -1, expected 0 to 3");
  CHECK(refusal([](SceneData& d) { d.features[65] = std::numeric_limits<float>::quiet_NaN(); }) ==
        "a feature of scene 2 is not finite");
}

TEST_CASE("a model learns a few scenes by heart") {
  SceneData data = random_scenes(6);
  for (std::int64_t& count : data.counts) count = 3;
  const SceneBatches batches(data, 6);
  ViewModelOptions options;
  options.views = 2;
  options.width = 5;
  options.scheme = AttentionScheme{Scheme::dnas, false, 1};
  options.inner = 8;
  options.vocabulary = batches.vocabulary();
  options.answers = batches.answers();
  const ViewModel model(options);
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(1, weights.data());
  BatchPass<ViewModel, double> pass(model, 1);
  OptimizerOptions of;
  of.rule = Rule::adam;
  WeightOptimizer<double> optimizer(model.parameters(), of, {}, 1);
  const auto slots = batches.evaluation(0);
  for (Index step = 1; step <= 200; ++step) {
    const auto found = pass.differentiate(weights.data(), slots, {}, 1, step);
    optimizer.step(step, 0.03, weights.data(), found.gradients);
  }
  const AnswerPrediction found = pass.predict(weights.data(), slots);
  CHECK(found.correct == 6);
  CHECK(found.loss < 0.6);
}
