// lib/train: the gradients of whole models against central differences, in float64.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "thrown_error.hpp"
#include "train/batch_pass.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

// The largest |∂L/∂w − difference| over some weights of each tensor, relative to the largest
// gradient of the tensor and at least 1e-3 of the loss' own scale.
double gradient_error(const TransformerOptions& options, const std::vector<SlotBatch>& slots,
                      double dropout) {
  const Transformer model(options);
  const Index size = model.parameters().size();
  std::vector<double> weights(static_cast<std::size_t>(size));
  model.parameters().initialise(3, weights.data());
  BatchPass<Transformer, double> pass(model, 1);
  const auto loss = [&] {
    return pass.differentiate(weights.data(), slots, {dropout, dropout}, 5, 1)
        .prediction.objective();
  };
  const double* const found =
      pass.differentiate(weights.data(), slots, {dropout, dropout}, 5, 1).gradients;
  const std::vector<double> gradients(found, found + size);
  double worst = 0;
  for (const Parameter& one : model.parameters().all()) {
    double largest = 1e-3;
    for (Index n = 0; n < one.size(); ++n) {
      largest = std::max(largest, std::abs(gradients[static_cast<std::size_t>(one.offset + n)]));
    }
    for (Index n = 0; n < one.size(); n += 1 + one.size() / 4) {
      const auto at = static_cast<std::size_t>(one.offset + n);
      const double kept = weights[at];
      const double h = 1e-5;
      weights[at] = kept + h;
      const double above = loss();
      weights[at] = kept - h;
      const double below = loss();
      weights[at] = kept;
      const double error = std::abs((above - below) / (2 * h) - gradients[at]) / largest;
      if (!(error <= 1e-6)) MESSAGE(one.name << " " << n << ": " << error);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

}  // namespace

// The truncation of a central difference with h = 1e-5 is of the order of h², and its rounding of
// 1e-16 / h = 1e-11; a loss of ten layers of exponentials multiplies both.
constexpr double difference_error = 1e-6;

TEST_CASE("gradients of one stack") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    for (const bool causal : {true, false}) {
      for (const bool variant : {false, true}) {
        TransformerOptions options = small_stack(scheme, causal);
        if (variant) {
          options.layer.order = NormOrder::pre;
          options.layer.activation = Activation::gelu;
          options.positions = Positions::sinusoidal;
          options.tied = true;
          options.smoothing = 0.1;
          options.decoder.scheme.share_by_head = true;
        }
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(causal);
        CAPTURE(variant);
        const auto slots = token_slots(options, {5, 1, 7}, variant);
        CHECK(gradient_error(options, slots, variant ? 0.2 : 0) <= difference_error);
      }
    }
  }
}

TEST_CASE("gradients of an encoder and a decoder") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
    for (const bool variant : {false, true}) {
      TransformerOptions options = small_pair(scheme);
      if (variant) {
        options.layer.order = NormOrder::pre;
        options.tied = true;
        options.smoothing = 0.2;
      }
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      const auto slots = token_slots(options, {4, 6, 1, 3}, variant);
      CHECK(gradient_error(options, slots, variant ? 0.3 : 0) <= difference_error);
    }
  }
}

TEST_CASE("gradients of a stack that tells the order of segments") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    for (const bool variant : {false, true}) {
      TransformerOptions options = small_stack(scheme, false);
      options.order = true;
      if (variant) {
        options.layer.order = NormOrder::pre;
        options.tied = true;
        options.smoothing = 0.1;
      }
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      std::vector<SlotBatch> slots = token_slots(options, {5, 1, 7, 3, 4, 6, 2, 5, 7, 3}, variant);
      Index number = 0;
      for (SlotBatch& slot : slots) {
        for (Index n = 0; n < slot.input.sequences.count; ++n) slot.swapped.push_back(number++ % 2);
      }
      // A slot with targets only, one with the order only, and one of nothing.
      slots[1].swapped.clear();
      slots[2].targets = {};
      slots[3].targets = {};
      slots[3].swapped.clear();
      CHECK(gradient_error(options, slots, variant ? 0.2 : 0) <= difference_error);
      for (SlotBatch& slot : slots) slot.targets = {};
      CHECK(gradient_error(options, slots, 0) <= difference_error);
    }
  }
}

TEST_CASE("heads that do not divide the width are refused") {
  for (const Index heads : {0, 4, 7}) {
    TransformerOptions options = small_stack(Scheme::unas, true);
    options.layer.heads = heads;
    CHECK(thrown_error([&] { const Transformer model(options); }).failure() == Failure::usage);
  }
}

TEST_CASE("a slot without targets has gradients of 0") {
  const TransformerOptions options = small_stack(Scheme::unas, true);
  auto slots = token_slots(options, {5, 4}, false);
  for (SlotBatch& slot : slots) slot.targets = {};
  const Transformer model(options);
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  BatchPass<Transformer, double> pass(model, 2);
  const auto found = pass.differentiate(weights.data(), slots, {}, 5, 1);
  CHECK(found.prediction.count == 0);
  for (Index n = 0; n < model.parameters().size(); ++n) CHECK(found.gradients[n] == 0);
}

TEST_CASE_TEMPLATE("no bit of a step depends on threads", T, float, double) {
  const TransformerOptions options = small_pair(Scheme::hnas);
  std::vector<Index> lengths;
  for (Index n = 0; n < 19; ++n) lengths.push_back(1 + n * 5 % 7);
  const auto slots = token_slots(options, lengths, false);
  CHECK(slots.size() == 8);
  const Transformer model(options);
  std::vector<T> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  std::vector<T> first;
  for (const int threads : {1, 2, 3, 8, 11}) {
    BatchPass<Transformer, T> pass(model, threads);
    const auto found = pass.differentiate(weights.data(), slots, {0.1, 0.2}, 5, 1);
    const std::vector<T> gradients(found.gradients, found.gradients + weights.size());
    if (first.empty()) first = gradients;
    CAPTURE(threads);
    CHECK(gradients == first);
  }
}

TEST_CASE("a padded batch has the gradients of its sequences") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    CAPTURE(static_cast<int>(scheme));
    const TransformerOptions options = small_stack(scheme, false);
    const Transformer model(options);
    const auto size = static_cast<std::size_t>(model.parameters().size());
    std::vector<double> weights(size);
    model.parameters().initialise(3, weights.data());
    const std::vector<Index> lengths = {6, 2, 5};
    const std::vector<SlotBatch> alone = token_slots(options, lengths, false);
    const SlotBatch together = merged(alone, 7);
    BatchPass<Transformer, double> pass(model, 1);
    const auto found = pass.differentiate(weights.data(), {together}, {}, 5, 1);
    const std::vector<double> got(found.gradients, found.gradients + size);
    const double loss = found.prediction.loss;
    const auto want = pass.differentiate(weights.data(), alone, {}, 5, 1);
    CHECK(loss == doctest::Approx(want.prediction.loss).epsilon(1e-13));
    double worst = 0;
    for (std::size_t n = 0; n < size; ++n) {
      worst = std::max(worst, std::abs(got[n] - want.gradients[n]));
    }
    CHECK(worst <= 1e-13);
  }
}
