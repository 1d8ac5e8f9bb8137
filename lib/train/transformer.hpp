#pragma once

#include <optional>
#include <vector>

#include "train/softmax_layer.hpp"
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
  LayerAttention decoder = {.scheme = {}, .causal = true, .first_share = 0.5, .in_paths = false};
  LayerAttention cross;
  Positions positions = Positions::learned;
  bool tied = false;  ///< the softmax has the matrix of the embedding
  double smoothing = 0;
};

/// The tokens of some sequences, padded to one length with padding_token.
struct TokenRows {
  Sequences sequences;
  std::vector<Index> tokens;   ///< (count, length)
  std::vector<Index> lengths;  ///< by sequence; empty: all are whole

  /// Sequences whose lengths point to those of this object.
  Sequences view() const {
    return {sequences.count, sequences.length, lengths.empty() ? nullptr : lengths.data()};
  }
};

/// The part of a batch that one slot computes.
struct SlotBatch {
  TokenRows source;  ///< empty for a single stack
  TokenRows input;
  Targets targets;  ///< rows of `input`

  Index target_count() const { return targets.count(); }
};

class Transformer {
 public:
  using Batch = SlotBatch;
  using Sums = Prediction;

  explicit Transformer(const TransformerOptions& options);

  const TransformerOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  const std::optional<Stack>& encoder() const { return encoder_; }
  const Stack& decoder() const { return *decoder_; }

  /// What a pass with gradients returns besides those it writes.
  template <class T>
  struct TokenGradients {
    Rows<T> source;  ///< see Embedding::backward
    Rows<T> input;
  };

  /// The predictions of a slot.
  template <class T>
  Prediction predict(const Slot<T>& slot, const SlotBatch& batch) const;

  /// The same, and writes the gradients of `factor` times the smoothed loss, of all tensors but
  /// those by rows, to the slot.
  template <class T>
  Prediction differentiate(const Slot<T>& slot, const SlotBatch& batch, double factor,
                           TokenGradients<T>& token_gradients) const;

  /// Adds a slot's gradients of the tokens' vectors to those of the tables.
  template <class T>
  void add_token_gradients(const SlotBatch& batch, const TokenGradients<T>& token_gradients,
                           T* gradients) const;

 private:
  TransformerOptions options_;
  Parameters parameters_;
  std::optional<Stack> encoder_;
  std::optional<Stack> decoder_;
  std::optional<SoftmaxLayer> softmax_;
};

}  // namespace attn::train
