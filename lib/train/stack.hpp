#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/embedding.hpp"
#include "train/transformer_layer.hpp"

namespace attn::train {

/// An encoder or a decoder: embedding and layers, and under NormOrder::pre a last norm.
class Stack {
 public:
  struct Options {
    std::string prefix;      ///< of all names: "encoder/"; empty for a single stack
    std::string self_group;  ///< see TransformerLayer
    Index layers = 1;
    Embedding::Options embedding;
    LayerOptions layer;
    LayerAttention self;
    std::optional<LayerAttention> cross;
    std::uint32_t place = 0;  ///< the first of 1 + 5·layers numbers for dropout
  };

  Stack(Parameters& parameters, const Options& options);

  template <class T>
  struct Kept {
    std::vector<OwnedMatrix<T>> inputs;  ///< of the layers, and the result of the last layer
    std::vector<TransformerLayer::Kept<T>> layers;
    LayerNorm::Kept<T> norm;
    OwnedMatrix<T> normal;
  };

  /// The result of the last layer, which `kept` owns.
  template <class T>
  MatrixView<const T> forward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                              const TransformerLayer::Memory<T>& memory, Kept<T>& kept) const;

  /// Returns the gradients of the tokens' vectors: see Embedding::backward. Adds ∂L/∂memory to
  /// `dmemory`.
  template <class T>
  OwnedMatrix<T> backward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                          const TransformerLayer::Memory<T>& memory, const Kept<T>& kept,
                          OwnedMatrix<T> dy, MatrixView<T> dmemory) const;

  /// The bytes for sequences and those of the other stack's result, including the result of
  /// `backward`.
  template <class T>
  PassBytes bytes(const Sequences& sequences, const Sequences& memory) const;

  /// Adds the attentions of all layers in a forward pass: see TransformerLayer::add_sites.
  template <class T>
  void add_sites(const Sequences& sequences, const TransformerLayer::Memory<T>& memory,
                 const Kept<T>& kept, std::vector<AttentionSite<T>>& sites) const;

  /// The data of earlier positions that `extend` keeps.
  template <class T>
  struct Past {
    Index length = 0;
    std::vector<TransformerLayer::Past<T>> layers;

    /// Sequence n becomes a copy of sequence from[n].
    void choose(const std::vector<Index>& from);
  };

  /// The past of one sequence without positions: see TransformerLayer::no_past.
  template <class T>
  Past<T> no_past(const Slot<T>& slot, const TransformerLayer::Memory<T>& memory, Index most_memory,
                  Index most) const;

  /// The rows of `forward` for the next position of some sequences, which has one token each: see
  /// TransformerLayer::extend.
  template <class T>
  OwnedMatrix<T> extend(const Slot<T>& slot, const std::vector<Index>& tokens, Past<T>& past) const;

  const Embedding& embedding() const { return embedding_; }
  const std::vector<TransformerLayer>& layers() const { return layers_; }

 private:
  Embedding embedding_;
  std::vector<TransformerLayer> layers_;
  std::optional<LayerNorm> norm_;
};

}  // namespace attn::train
