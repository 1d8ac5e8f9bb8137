#include "train/transformer.hpp"

#include <utility>

#include "attnkit/error.hpp"

namespace attn::train {
namespace {

LayerAttention to_positions(LayerAttention attention, Index most) {
  attention.positions = most;
  return attention;
}

Stack::Options encoder_options(const TransformerOptions& options) {
  return {.prefix = "encoder/",
          .self_group = "self/",
          .layers = options.encoder_layers,
          .embedding = {.vocabulary = options.source_vocabulary,
                        .width = options.layer.width,
                        .length = options.source_length,
                        .positions = options.positions,
                        .deviation = options.layer.deviation},
          .layer = options.layer,
          .self = to_positions(options.encoder, options.source_length),
          .cross = std::nullopt,
          .place = 0};
}

Stack::Options decoder_options(const TransformerOptions& options) {
  const bool alone = options.encoder_layers == 0;
  return {.prefix = alone ? "" : "decoder/",
          .self_group = alone ? "" : "self/",
          .layers = options.decoder_layers,
          .embedding = {.vocabulary = options.vocabulary,
                        .width = options.layer.width,
                        .length = options.length,
                        .positions = options.positions,
                        .deviation = options.layer.deviation,
                        .tied = options.tied},
          .layer = options.layer,
          .self = to_positions(options.decoder, options.length),
          .cross = alone ? std::nullopt
                         : std::optional(to_positions(options.cross, options.source_length)),
          .place = 1 + 5 * static_cast<std::uint32_t>(options.encoder_layers)};
}

// The class of each sequence, at its first row.
Targets order_targets(const SlotBatch& batch) {
  Targets found;
  for (const Index swapped : batch.swapped) {
    found.rows.push_back(found.count() * batch.input.sequences.length);
    found.tokens.push_back(swapped);
  }
  return found;
}

}  // namespace

Transformer::Transformer(const TransformerOptions& options) : options_(options) {
  if (options.encoder_layers > 0) encoder_.emplace(parameters_, encoder_options(options));
  decoder_.emplace(parameters_, decoder_options(options));
  if (options.classes > 0) {
    if (options.order || options.tied) {
      throw Error(Failure::usage, "a model that tells classes tells no order and no tokens");
    }
    softmax_.emplace(parameters_, "class/", std::nullopt, options.classes, options.layer.width,
                     options.layer.deviation, options.smoothing);
    return;
  }
  const std::optional<MatrixPlace> tied =
      options.tied ? std::optional(decoder_->embedding().table()) : std::nullopt;
  softmax_.emplace(parameters_, "", tied, options.vocabulary, options.layer.width,
                   options.layer.deviation, options.smoothing);
  if (!options.order) return;
  if (encoder_ || options.decoder.causal) {
    throw Error(Failure::usage,
                "only a single stack that is not causal can tell the order of segments");
  }
  order_.emplace(parameters_, "order/", std::nullopt, 2, options.layer.width,
                 options.layer.deviation, 0);
}

template <class T>
void Transformer::forward(const Slot<T>& slot, const SlotBatch& batch, Passed<T>& passed) const {
  if (encoder_) {
    const Sequences source = batch.source.view();
    passed.memory = {
        source, encoder_->forward(slot, source, batch.source.tokens.data(), {}, passed.encoder)};
  }
  passed.last = decoder_->forward(slot, batch.input.view(), batch.input.tokens.data(),
                                  passed.memory, passed.decoder);
}

template <class T>
std::vector<AttentionSite<T>> Transformer::attention_sites(const SlotBatch& batch,
                                                           const Passed<T>& passed) const {
  std::vector<AttentionSite<T>> sites;
  if (encoder_) encoder_->add_sites(batch.source.view(), {}, passed.encoder, sites);
  decoder_->add_sites(batch.input.view(), passed.memory, passed.decoder, sites);
  return sites;
}

template <class T>
std::vector<SourceWeights<T>> Transformer::source_weights(const Slot<T>& slot,
                                                          const SlotBatch& batch) const {
  Passed<T> passed;
  forward(slot, batch, passed);
  std::vector<SourceWeights<T>> found;
  for (const AttentionSite<T>& site : attention_sites(batch, passed)) {
    if (site.y.data != passed.memory.rows.data) continue;
    const HeadAttention& heads = site.layer->heads();
    found.push_back({site.layer->group(), heads.options().heads,
                     heads.weights(slot, site.queries, site.keys, *site.kept)});
  }
  return found;
}

namespace {

// Calls body(sequence, row) for each position that is not padding.
template <class Body>
void for_each_position(const Sequences& sequences, const Body& body) {
  for (Index n = 0; n < sequences.count; ++n) {
    for (Index i = 0; i < sequences.own_length(n); ++i) body(n, n * sequences.length + i);
  }
}

}  // namespace

// The losses at the means of sequences: see predicted.
template <class T>
Prediction Transformer::class_predicted(const Slot<T>& slot, MatrixView<const T> last,
                                        const SlotBatch& batch, double factor,
                                        MatrixView<T> dlast) const {
  const Sequences sequences = batch.input.view();
  const auto share = [&](Index n) { return T{1} / static_cast<T>(sequences.own_length(n)); };
  OwnedMatrix<T> means = OwnedMatrix<T>::zeros(sequences.count, last.cols);
  for_each_position(sequences, [&](Index n, Index row) {
    for (Index c = 0; c < last.cols; ++c) means.view()(n, c) += share(n) * last(row, c);
  });
  const MatrixView<const T> read = std::as_const(means).view();
  if (dlast.data == nullptr) {
    return softmax_->forward(slot, read, batch.targets, factor, MatrixView<T>());
  }
  OwnedMatrix<T> dmeans = OwnedMatrix<T>::zeros(means.rows(), means.cols());
  const Prediction found = softmax_->forward(slot, read, batch.targets, factor, dmeans.view());
  for_each_position(sequences, [&](Index n, Index row) {
    for (Index c = 0; c < last.cols; ++c) dlast(row, c) += share(n) * dmeans.view()(n, c);
  });
  return found;
}

// The losses at the last layer's result. If `dlast` has data, adds their gradients to it.
template <class T>
Prediction Transformer::predicted(const Slot<T>& slot, MatrixView<const T> last,
                                  const SlotBatch& batch, const LossFactors& factors,
                                  MatrixView<T> dlast) const {
  if (options_.classes > 0) return class_predicted(slot, last, batch, factors.targets, dlast);
  Prediction found = softmax_->forward(slot, last, batch.targets, factors.targets, dlast);
  if (!order_) return found;
  const Prediction order = order_->forward(slot, last, order_targets(batch), factors.order, dlast);
  found.order_loss = order.loss;
  found.order_correct = order.correct;
  found.order_count = order.count;
  return found;
}

template <class T>
Prediction Transformer::predict(const Slot<T>& slot, const SlotBatch& batch) const {
  Passed<T> passed;
  forward(slot, batch, passed);
  return predicted(slot, passed.last, batch, {}, MatrixView<T>());
}

template <class T>
Prediction Transformer::differentiate(const Slot<T>& slot, const SlotBatch& batch,
                                      const LossFactors& factors,
                                      TokenGradients<T>& token_gradients) const {
  Passed<T> passed;
  forward(slot, batch, passed);
  OwnedMatrix<T> dlast = OwnedMatrix<T>::zeros(passed.last.rows, passed.last.cols);
  const Prediction found = predicted(slot, passed.last, batch, factors, dlast.view());
  const MatrixView<const T> memory = passed.memory.rows;
  OwnedMatrix<T> dmemory = OwnedMatrix<T>::zeros(memory.rows, memory.cols);
  token_gradients.input =
      decoder_->backward(slot, batch.input.view(), batch.input.tokens.data(), passed.memory,
                         passed.decoder, std::move(dlast), dmemory.view());
  if (encoder_) {
    token_gradients.source =
        encoder_->backward(slot, batch.source.view(), batch.source.tokens.data(), {},
                           passed.encoder, std::move(dmemory), MatrixView<T>());
  }
  return found;
}

template <class T>
void Transformer::add_token_gradients(const SlotBatch& batch,
                                      const TokenGradients<T>& token_gradients,
                                      T* gradients) const {
  if (encoder_) {
    encoder_->embedding().add_rows(token_gradients.source, batch.source.tokens.data(), gradients);
  }
  decoder_->embedding().add_rows(token_gradients.input, batch.input.tokens.data(), gradients);
}

template <class T>
SlotBytes Transformer::bytes(const Sequences& source, const Sequences& input) const {
  const Index width = options_.layer.width;
  const std::int64_t of_source = row_bytes<T>(source.rows(), width);
  const std::int64_t of_input = row_bytes<T>(input.rows(), width);
  PassBytes passed = decoder_->bytes<T>(input, source);
  if (encoder_) passed = passed.then(encoder_->bytes<T>(source, {}));
  PassBytes last = softmax_->bytes<T>(options_.classes > 0 ? input.count : input.rows());
  if (options_.classes > 0) {
    const std::int64_t means = row_bytes<T>(input.count, width);
    last.forward += means;
    last.backward += 2 * means;
  }
  SlotBytes found;
  found.predict = passed.kept + std::max(passed.forward, last.forward);
  found.differentiate =
      passed.kept + of_source + std::max(of_input + last.backward, passed.backward);
  // The gradients of tokens' vectors; for each position its token, a target and its row.
  found.returned =
      of_source + of_input + (source.rows() + 3 * input.rows()) * static_cast<Index>(sizeof(Index));
  const auto add_plan = [&](const AttentionLayer* layer, const Sequences& queries,
                            const Sequences& keys) {
    if (layer == nullptr) return;
    const PlanBytes plan = layer->heads().plan_bytes<T>(queries, keys);
    found.plan.results = std::max(found.plan.results, plan.results);
    found.plan.gradients = std::max(found.plan.gradients, plan.gradients);
    ++found.plans;
  };
  const TransformerLayer& layer = decoder_->layers().front();
  add_plan(layer.self(), input, input);
  if (!encoder_) return found;
  add_plan(layer.cross(), input, source);
  add_plan(encoder_->layers().front().self(), source, source);
  return found;
}

#define ATTN_TRANSFORMER(T)                                                                      \
  template void Transformer::forward(const Slot<T>&, const SlotBatch&, Passed<T>&) const;        \
  template std::vector<AttentionSite<T>> Transformer::attention_sites(const SlotBatch&,          \
                                                                      const Passed<T>&) const;   \
  template Prediction Transformer::predict(const Slot<T>&, const SlotBatch&) const;              \
  template std::vector<SourceWeights<T>> Transformer::source_weights(const Slot<T>&,             \
                                                                     const SlotBatch&) const;    \
  template SlotBytes Transformer::bytes<T>(const Sequences&, const Sequences&) const;            \
  template Prediction Transformer::differentiate(const Slot<T>&, const SlotBatch&,               \
                                                 const LossFactors&, TokenGradients<T>&) const;  \
  template void Transformer::add_token_gradients(const SlotBatch&, const TokenGradients<T>&, T*) \
      const;
ATTN_TRANSFORMER(float)
ATTN_TRANSFORMER(double)
#undef ATTN_TRANSFORMER

}  // namespace attn::train
