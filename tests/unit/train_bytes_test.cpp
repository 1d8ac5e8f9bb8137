// lib/train: the memory that models state against what the pool of a pass has seen.

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/memory_pool.hpp"
#include "train/batch_pass.hpp"
#include "train/view_model.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

// Stated bytes are at least those that were used, and no more than twice as many.
void check_bound(std::int64_t stated, const MemoryPool& pool) {
  CHECK(pool.most_bytes_in_use() <= stated);
  CHECK(stated <= 2 * pool.most_bytes_in_use());
}

template <class T, class Model, class Factors>
void check_passes(const Model& model, const typename Model::Batch& batch, const Factors& factors,
                  const SlotBytes& stated) {
  const auto size = static_cast<std::size_t>(model.parameters().size());
  std::vector<T> weights(size);
  std::vector<T> gradients(size);
  model.parameters().initialise(3, weights.data());
  AttentionPlans<T> plans;
  Slot<T> slot;
  slot.weights = weights.data();
  slot.plans = &plans;
  {
    MemoryPool pool;
    const MemoryPool::Use use(&pool);
    model.predict(slot, batch);
    check_bound(stated.predict, pool);
  }
  slot.gradients = gradients.data();
  MemoryPool pool;
  const MemoryPool::Use use(&pool);
  typename Model::template TokenGradients<T> token_gradients;
  model.differentiate(slot, batch, factors, token_gradients);
  check_bound(stated.differentiate, pool);
  CHECK(pool.bytes_in_use() <= stated.returned);
}

// Large enough that margins of blocks do not count.
TransformerOptions wide(TransformerOptions options, bool variant) {
  options.layer.width = 24;
  options.layer.heads = 3;
  options.layer.inner = 37;
  options.vocabulary = 41;
  options.length = 33;
  options.source_length = 34;
  if (variant) {
    options.layer.order = NormOrder::pre;
    options.layer.activation = Activation::gelu;
    options.positions = Positions::sinusoidal;
  }
  return options;
}

template <class T>
void check_transformer(const TransformerOptions& options) {
  const Transformer model(options);
  for (const std::vector<Index>& lengths :
       {std::vector<Index>{1}, std::vector<Index>{33}, std::vector<Index>(17, 33)}) {
    CAPTURE(lengths.size());
    const SlotBatch batch = token_slots(options, lengths, true).back();
    check_passes<T>(model, batch, LossFactors{1, 1},
                    model.bytes<T>(batch.source.sequences, batch.input.sequences));
  }
}

}  // namespace

TEST_CASE("memory of a pass of a Transformer") {
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn,
                              Scheme::fenchel, Scheme::transport}) {
    for (const bool variant : {false, true}) {
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(variant);
      check_transformer<float>(wide(small_stack(scheme, false), variant));
      check_transformer<double>(wide(small_stack(scheme, false), variant));
      check_transformer<float>(wide(small_pair(scheme), variant));
    }
  }
}

TEST_CASE("memory of a pass of a Transformer without some of its attentions") {
  for (const int left_out : {1, 2, 4, 7}) {
    CAPTURE(left_out);
    TransformerOptions options = wide(small_pair(Scheme::unas), false);
    options.encoder.left_out = (left_out & 1) != 0;
    options.decoder.left_out = (left_out & 2) != 0;
    options.cross.left_out = (left_out & 4) != 0;
    check_transformer<float>(options);
  }
}

TEST_CASE("memory of a pass of a Transformer that tells classes") {
  TransformerOptions options = wide(small_stack(Scheme::unas, false), false);
  options.classes = 3;
  const Transformer model(options);
  for (const Index count : {1, 17}) {
    SlotBatch batch =
        token_slots(options, std::vector<Index>(static_cast<std::size_t>(count), 33), true).back();
    batch.targets = {{0}, {2}};
    check_passes<float>(model, batch, LossFactors{1, 0},
                        model.bytes<float>({}, batch.input.sequences));
  }
}

TEST_CASE("memory of a pass of a multi-view model") {
  for (const bool attends : {false, true}) {
    CAPTURE(attends);
    ViewModelOptions options;
    options.width = 24;
    options.heads = 3;
    options.inner = 37;
    options.vocabulary = 7;
    options.answers = 4;
    options.scheme = attends ? std::optional(AttentionScheme{Scheme::hnas}) : std::nullopt;
    const Index scenes = 5;
    const Index boxes = 11;
    ViewBatch batch;
    for (Index v = 0; v < options.views; ++v) {
      batch.views.push_back({{scenes, boxes}, {}, std::vector<float>(scenes * boxes * 24, 0.5F)});
    }
    batch.kinds.assign(scenes, 0);
    batch.questions.assign(scenes * question_tokens, 1);
    for (Index n = 0; n < scenes; ++n) {
      batch.targets.rows.push_back(n);
      batch.targets.tokens.push_back(n % options.answers);
    }
    const ViewModel model(options);
    check_passes<float>(model, batch, 1.0, model.bytes<float>(scenes, boxes));
    check_passes<double>(model, batch, 1.0, model.bytes<double>(scenes, boxes));
  }
}
