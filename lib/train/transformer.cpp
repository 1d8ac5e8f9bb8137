#include "train/transformer.hpp"

#include <utility>

namespace attn::train {
namespace {

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
          .self = options.encoder,
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
          .self = options.decoder,
          .cross = alone ? std::nullopt : std::optional(options.cross),
          .place = 1 + 5 * static_cast<std::uint32_t>(options.encoder_layers)};
}

// The results of both stacks.
template <class T>
struct Passed {
  Stack::Kept<T> encoder, decoder;
  TransformerLayer::Memory<T> memory;
  MatrixView<const T> last;
};

template <class T>
void forward(const Transformer& model, const Slot<T>& slot, const SlotBatch& batch,
             Passed<T>& passed) {
  if (model.encoder()) {
    const Sequences source = batch.source.view();
    passed.memory = {source, model.encoder()->forward(slot, source, batch.source.tokens.data(), {},
                                                      passed.encoder)};
  }
  passed.last = model.decoder().forward(slot, batch.input.view(), batch.input.tokens.data(),
                                        passed.memory, passed.decoder);
}

}  // namespace

Transformer::Transformer(const TransformerOptions& options) : options_(options) {
  if (options.encoder_layers > 0) encoder_.emplace(parameters_, encoder_options(options));
  decoder_.emplace(parameters_, decoder_options(options));
  const std::optional<MatrixPlace> tied =
      options.tied ? std::optional(decoder_->embedding().table()) : std::nullopt;
  softmax_.emplace(parameters_, "", tied, options.vocabulary, options.layer.width,
                   options.layer.deviation, options.smoothing);
}

template <class T>
Prediction Transformer::predict(const Slot<T>& slot, const SlotBatch& batch) const {
  Passed<T> passed;
  forward(*this, slot, batch, passed);
  return softmax_->forward(slot, passed.last, batch.targets, 0, MatrixView<T>());
}

template <class T>
Prediction Transformer::differentiate(const Slot<T>& slot, const SlotBatch& batch, double factor,
                                      TokenGradients<T>& token_gradients) const {
  Passed<T> passed;
  forward(*this, slot, batch, passed);
  Rows<T> dlast = Rows<T>::zeros(passed.last.rows, passed.last.cols);
  const Prediction found =
      softmax_->forward(slot, passed.last, batch.targets, factor, dlast.view());
  const MatrixView<const T> memory = passed.memory.rows;
  Rows<T> dmemory = Rows<T>::zeros(memory.rows, memory.cols);
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

#define ATTN_TRANSFORMER(T)                                                                      \
  template Prediction Transformer::predict(const Slot<T>&, const SlotBatch&) const;              \
  template Prediction Transformer::differentiate(const Slot<T>&, const SlotBatch&, double,       \
                                                 TokenGradients<T>&) const;                      \
  template void Transformer::add_token_gradients(const SlotBatch&, const TokenGradients<T>&, T*) \
      const;
ATTN_TRANSFORMER(float)
ATTN_TRANSFORMER(double)
#undef ATTN_TRANSFORMER

}  // namespace attn::train
