#pragma once

#include <array>
#include <optional>
#include <vector>

#include "train/softmax_layer.hpp"
#include "train/source_weights.hpp"
#include "train/stack.hpp"

namespace attn::train {

/// A Transformer that predicts tokens: one stack (a language model, causal or masked), or an
/// encoder and a decoder that attends to its result.
struct TransformerOptions {
  Index encoder_layers = 0;  ///< 0: a single stack, which is `decoder`
  Index decoder_layers = 1;
  Index source_vocabulary = 0;  ///< of the encoder
  Index vocabulary = 0;
  Index source_length = 0;  ///< the most positions of a source
  Index length = 0;
  LayerOptions layer;
  LayerAttention encoder;
  LayerAttention decoder = {.scheme = {}, .causal = true};
  LayerAttention cross;
  Positions positions = Positions::learned;
  bool tied = false;  ///< the softmax shares the matrix of the embedding
  double smoothing = 0;
  bool order = false;  ///< tells whether two segments are swapped: see Transformer
  Index classes = 0;   ///< above 0: tells the class of a sequence instead of tokens
};

/// The tokens of some sequences, padded to one length with padding_token.
struct TokenRows {
  Sequences sequences;
  std::vector<Index> tokens;   ///< (count, length)
  std::vector<Index> lengths;  ///< by sequence; empty: all are whole

  /// Sequences whose lengths point to the lengths in this object.
  Sequences view() const {
    return {sequences.count, sequences.length, lengths.empty() ? nullptr : lengths.data()};
  }
};

/// The part of a batch that one slot computes.
struct SlotBatch {
  TokenRows source;  ///< empty for a single stack
  TokenRows input;
  Targets targets;  ///< rows of `input`; classes of its sequences for a model that tells classes
  /// By sequence of `input`: 1 if its two segments are swapped, 0 if they are in order. Empty: no
  /// order is predicted. Only for a model that tells the order.
  std::vector<Index> swapped;

  Index target_count() const { return targets.count(); }
};

/// The factors of the sums of a loss.
struct LossFactors {
  double targets = 0;  ///< the smoothed loss of the targets
  double order = 0;    ///< the loss of the order of segments
};

/// A model that tells the order has a second softmax with two classes, linear in the last layer's
/// result at the first position of a sequence, with the tensors order/softmax (2, width) and
/// order/softmax_bias (2): class 1 means that the two segments of the sequence are swapped (EA's
/// two-way task beside the masked tokens). Its loss is the mean cross-entropy of the targets plus
/// the mean cross-entropy of the order.
///
/// A model that tells classes has, in place of the softmax over tokens, one over classes, with the
/// tensors class/softmax (classes, width) and class/softmax_bias (classes). It is linear in the
/// mean of the last layer's result over the positions of a sequence, padding left out; without
/// positions the mean is 0.
class Transformer {
 public:
  using Batch = SlotBatch;
  using Sums = Prediction;

  /// Throws Error(usage) for heads that do not divide the width, and for `order` unless there is a
  /// single stack that is not causal: under causality, the first position sees only itself. Classes
  /// go with neither `order` nor `tied`.
  explicit Transformer(const TransformerOptions& options);

  const TransformerOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  const std::optional<Stack>& encoder() const { return encoder_; }
  const Stack& decoder() const { return *decoder_; }
  const SoftmaxLayer& softmax() const { return *softmax_; }

  /// The data that a forward pass keeps.
  template <class T>
  struct Passed {
    Stack::Kept<T> encoder, decoder;
    TransformerLayer::Memory<T> memory;
    MatrixView<const T> last;  ///< the rows of the last layer
  };

  template <class T>
  void forward(const Slot<T>& slot, const SlotBatch& batch, Passed<T>& passed) const;

  /// All attentions of a forward pass, the encoder's first, layer by layer, as views of `batch` and
  /// `passed`.
  template <class T>
  std::vector<AttentionSite<T>> attention_sites(const SlotBatch& batch,
                                                const Passed<T>& passed) const;

  /// The weights of every attention of the decoder to the encoder, layer by layer.
  template <class T>
  std::vector<SourceWeights<T>> source_weights(const Slot<T>& slot, const SlotBatch& batch) const;

  /// The gradients that a pass returns instead of writing them.
  template <class T>
  struct TokenGradients {
    OwnedMatrix<T> source;  ///< see Embedding::backward
    OwnedMatrix<T> input;

    std::array<OwnedMatrix<T>*, 2> arrays() { return {&source, &input}; }
  };

  /// The predictions of a slot.
  template <class T>
  Prediction predict(const Slot<T>& slot, const SlotBatch& batch) const;

  /// The same, and writes the gradients of the losses times their factors to the slot, for all
  /// tensors except those by rows.
  template <class T>
  Prediction differentiate(const Slot<T>& slot, const SlotBatch& batch, const LossFactors& factors,
                           TokenGradients<T>& token_gradients) const;

  /// The bytes for slots of such sequences; `source` has no rows for a single stack. `predict` is
  /// also enough for layer_column_sums.
  template <class T>
  SlotBytes bytes(const Sequences& source, const Sequences& input) const;

  /// Adds a slot's gradients of the tokens' vectors to the gradients of the tables.
  template <class T>
  void add_token_gradients(const SlotBatch& batch, const TokenGradients<T>& token_gradients,
                           T* gradients) const;

 private:
  template <class T>
  Prediction class_predicted(const Slot<T>& slot, MatrixView<const T> last, const SlotBatch& batch,
                             double factor, MatrixView<T> dlast) const;
  template <class T>
  Prediction predicted(const Slot<T>& slot, MatrixView<const T> last, const SlotBatch& batch,
                       const LossFactors& factors, MatrixView<T> dlast) const;

  TransformerOptions options_;
  Parameters parameters_;
  std::optional<Stack> encoder_;
  std::optional<Stack> decoder_;
  std::optional<SoftmaxLayer> softmax_;
  std::optional<SoftmaxLayer> order_;
};

}  // namespace attn::train
