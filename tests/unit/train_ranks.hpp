#pragma once

// Steps of a model on ranks against those of one process.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "same_bits.hpp"
#include "thread_ranks.hpp"
#include "train/batch_pass.hpp"
#include "train/mechanism_model.hpp"
#include "train/view_model.hpp"
#include "train/weight_optimizer.hpp"

namespace attn::testing {

/// All numbers of sums over targets, and the names of figures.
struct SumNumbers {
  std::vector<double> numbers;
  std::vector<std::string> names;

  void add(const train::Prediction& one) {
    for (const double number : {one.loss, one.smoothed, one.order_loss}) numbers.push_back(number);
    for (const Index number : {one.correct, one.count, one.order_correct, one.order_count}) {
      numbers.push_back(static_cast<double>(number));
    }
  }
  void add(const train::AnswerPrediction& one) {
    add(static_cast<const train::Prediction&>(one));
    for (const train::Prediction& kind : one.by_kind) add(kind);
  }
  void add(const train::MechanismPrediction& one) {
    add(static_cast<const train::Prediction&>(one));
    for (const auto& [name, figure] : one.figures) {
      names.push_back(name);
      numbers.push_back(figure.sum);
      numbers.push_back(static_cast<double>(figure.count));
    }
  }

  bool operator==(const SumNumbers& other) const {
    return same_nonempty_bits(numbers, other.numbers) && names == other.names;
  }
};

/// What three steps with dropout leave behind, and what they and a pass without gradients find.
template <class T>
struct ShortRun {
  std::vector<T> weights;
  SumNumbers sums;

  bool operator==(const ShortRun& other) const {
    return same_nonempty_bits(weights, other.weights) && sums == other.sums;
  }
};

template <class T, class Model>
ShortRun<T> short_run(const Model& model, const std::vector<typename Model::Batch>& slots,
                      const train::OptimizerOptions& options,
                      const std::vector<train::PathLayer>& in_paths, int threads) {
  ShortRun<T> run;
  run.weights.resize(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, run.weights.data());
  train::BatchPass<Model, T> pass(model, threads);
  train::WeightOptimizer<T> optimizer(model.parameters(), options, in_paths, threads);
  // Each step in another order of slots, and the last one with fewer of them.
  std::vector<typename Model::Batch> batch = slots;
  for (Index number = 1; number <= 3; ++number) {
    if (number == 3) batch.resize((batch.size() + 1) / 2);
    const auto found = pass.differentiate(run.weights.data(), batch, {0.1, 0.2}, 5, number);
    run.sums.add(found.prediction);
    optimizer.step(number, 0.01, run.weights.data(), found.gradients);
    std::rotate(batch.begin(), batch.begin() + 1, batch.end());
  }
  run.sums.add(pass.predict(run.weights.data(), slots));
  return run;
}

/// Checks such a run on 2, 3 and 8 ranks.
template <class T, class Model>
void check_ranks_of(const Model& model, const std::vector<typename Model::Batch>& slots,
                    const train::OptimizerOptions& options = {},
                    const std::vector<train::PathLayer>& in_paths = {}) {
  const auto run = [&](int threads) {
    return short_run<T>(model, slots, options, in_paths, threads);
  };
  const ShortRun<T> alone = run(2);
  for (const int ranks : {2, 3, 8}) {
    CAPTURE(ranks);
    const int threads = ranks == 2 ? 2 : 1;
    for (const ShortRun<T>& found : on_ranks(ranks, [&] { return run(threads); })) {
      CHECK(found == alone);
    }
  }
}

}  // namespace attn::testing
