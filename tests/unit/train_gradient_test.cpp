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

TEST_CASE("gradients of one stack") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn,
                              Scheme::fenchel, Scheme::transport}) {
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
        CHECK(largest_gradient_error(Transformer(options), slots, variant ? 0.2 : 0) <=
              difference_error);
      }
    }
  }
}

TEST_CASE("gradients of an encoder and a decoder") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::transport}) {
    for (const bool variant : {false, true}) {
      TransformerOptions options = small_pair(scheme);
      if (scheme == Scheme::transport) options.cross.scheme.scheme = scheme;
      if (variant) {
        options.layer.order = NormOrder::pre;
        options.tied = true;
        options.smoothing = 0.2;
      }
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      const auto slots = token_slots(options, {4, 6, 1, 3}, variant);
      CHECK(largest_gradient_error(Transformer(options), slots, variant ? 0.3 : 0) <=
            difference_error);
    }
  }
}

// One class of three for each sequence.
void set_class_targets(std::vector<SlotBatch>& slots) {
  Index number = 0;
  for (SlotBatch& slot : slots) {
    slot.targets = {};
    for (Index n = 0; n < slot.input.sequences.count; ++n) {
      slot.targets.rows.push_back(n);
      slot.targets.tokens.push_back(number++ % 3);
    }
  }
}

TEST_CASE("gradients of a stack that tells classes") {
  for (const Scheme scheme : {Scheme::unas, Scheme::hnas}) {
    for (const bool variant : {false, true}) {
      TransformerOptions options = small_stack(scheme, false);
      options.classes = 3;
      if (variant) {
        options.layer.order = NormOrder::pre;
        options.smoothing = 0.1;
        options.decoder.left_out = scheme == Scheme::unas;
      }
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      std::vector<SlotBatch> slots = token_slots(options, {5, 1, 7, 3, 4, 6, 2, 5, 7, 3}, variant);
      set_class_targets(slots);
      const Transformer model(options);
      CHECK(largest_gradient_error(model, slots, variant ? 0.2 : 0) <= difference_error);
      for (const Parameter& one : model.parameters().all()) {
        CHECK(one.name.ends_with("softmax") == (one.name == "class/softmax"));
      }
    }
  }
  for (const bool order : {false, true}) {
    TransformerOptions options = small_stack(Scheme::unas, false);
    options.classes = 3;
    (order ? options.order : options.tied) = true;
    CHECK(thrown_error([&] { const Transformer model(options); }).failure() == Failure::usage);
  }
}

TEST_CASE("the class of a sequence is that of the mean over its own positions") {
  TransformerOptions options = small_stack(Scheme::dnas, false);
  options.classes = 3;
  const Transformer model(options);
  std::vector<double> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  std::vector<SlotBatch> alone = token_slots(options, {6, 2, 5}, false);
  set_class_targets(alone);
  AttentionPlans<double> plans;
  Slot<double> slot;
  slot.weights = weights.data();
  slot.plans = &plans;
  double want = 0;
  for (const SlotBatch& one : alone) {
    Transformer::Passed<double> passed;
    model.forward(slot, one, passed);
    std::vector<double> mean(6);
    for (Index i = 0; i < passed.last.rows; ++i) {
      for (Index c = 0; c < 6; ++c) {
        mean[static_cast<std::size_t>(c)] +=
            passed.last(i, c) / static_cast<double>(passed.last.rows);
      }
    }
    const auto logits =
        model.softmax().logits(weights.data(), MatrixView<const double>(mean.data(), 1, 6));
    double sum = 0;
    for (Index v = 0; v < 3; ++v) sum += std::exp(logits.data()[v]);
    want += std::log(sum) - logits.data()[one.targets.tokens.front()];
  }
  SlotBatch together = merged(alone, 7);
  // A sequence without tokens has the mean 0, so that its class is that of the bias.
  together.input.sequences.count = 4;
  together.input.lengths.push_back(0);
  together.input.tokens.resize(4 * 7, padding_token);
  together.targets = {{0, 1, 2, 3}, {0, 1, 2, 1}};
  BatchPass<Transformer, double> pass(model, 1);
  CHECK(pass.predict(weights.data(), {together}).loss ==
        doctest::Approx(want + std::log(3.0)).epsilon(1e-13));
}

TEST_CASE("gradients of models whose attentions are left out") {
  for (const bool variant : {false, true}) {
    for (const int left_out : {1, 2, 4, 7}) {
      TransformerOptions options = small_pair(Scheme::dnas);
      options.encoder.left_out = (left_out & 1) != 0;
      options.decoder.left_out = (left_out & 2) != 0;
      options.cross.left_out = (left_out & 4) != 0;
      if (variant) options.layer.order = NormOrder::pre;
      CAPTURE(left_out);
      CAPTURE(variant);
      const auto slots = token_slots(options, {4, 6, 1, 3}, variant);
      CHECK(largest_gradient_error(Transformer(options), slots, variant ? 0.3 : 0) <=
            difference_error);
    }
    TransformerOptions alone = small_stack(Scheme::unas, true);
    alone.decoder.left_out = true;
    if (variant) alone.layer.order = NormOrder::pre;
    const Transformer model(alone);
    CHECK(largest_gradient_error(model, token_slots(alone, {5, 1, 7}, variant), 0) <=
          difference_error);
    // Such a layer has the feed-forward layer and its norm, and nothing else.
    for (const Parameter& one : model.parameters().all()) {
      const bool of_layer = one.name.starts_with("layer");
      CHECK((!of_layer || contains(one.name, "/ffn/") || contains(one.name, "/norm/ffn")));
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
      CHECK(largest_gradient_error(Transformer(options), slots, variant ? 0.2 : 0) <=
            difference_error);
      for (SlotBatch& slot : slots) slot.targets = {};
      CHECK(largest_gradient_error(Transformer(options), slots, 0) <= difference_error);
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
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn,
                              Scheme::fenchel, Scheme::transport}) {
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
