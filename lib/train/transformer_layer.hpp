#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/attention_layer.hpp"
#include "train/feed_forward.hpp"
#include "train/residual.hpp"

namespace attn::train {

/// The common options of all layers of a stack.
struct LayerOptions {
  Index width = 0;
  Index heads = 1;
  Index inner = 0;  ///< of the feed-forward layer
  Activation activation = Activation::relu;
  NormOrder order = NormOrder::post;
  double deviation = 0.02;      ///< of the weights at the start
  double out_deviation = 0.02;  ///< of W_O and W₂ at the start
};

/// How a layer attends.
struct LayerAttention {
  AttentionScheme scheme;
  bool causal = false;
  double first_share = 0.5;
  bool in_paths = false;  ///< see AttentionLayerOptions
  bool left_out = false;  ///< there is no such sub-layer, and no tensor of it
  Index positions = 0;    ///< of the heads' options; set by Transformer

  /// Whether outputs can be generated token by token.
  bool generates() const { return left_out || scheme.scheme == Scheme::unas; }
};

/// One layer of an encoder or a decoder: self-attention, attention to another stack's result if
/// there is one, and the feed-forward layer, each in a Residual. An attention that is left out
/// passes its input on as it is.
class TransformerLayer {
 public:
  /// Names begin with `prefix`, followed by `self_group` for self-attention, and cross/, ffn/ and
  /// norm/ for the others. `place` is the first of five numbers for dropout.
  TransformerLayer(Parameters& parameters, const std::string& prefix, const std::string& self_group,
                   const LayerOptions& options, const LayerAttention& self,
                   const std::optional<LayerAttention>& cross, std::uint32_t place);

  template <class T>
  struct Kept {
    AttentionLayer::Kept<T> self, cross;
    FeedForward::Kept<T> inner;
    Residual::Kept<T> around_self, around_cross, around_inner;
    OwnedMatrix<T> after_self, after_cross;
  };

  /// The other stack's result, which cross-attention reads, and its sequences.
  template <class T>
  struct Memory {
    Sequences sequences;
    MatrixView<const T> rows;
  };

  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const Sequences& sequences, MatrixView<const T> x,
                         const Memory<T>& memory, Kept<T>& kept) const;

  /// Returns ∂L/∂x and adds ∂L/∂memory to `dmemory`.
  template <class T>
  OwnedMatrix<T> backward(const Slot<T>& slot, const Sequences& sequences, MatrixView<const T> x,
                          const Memory<T>& memory, const Kept<T>& kept, const OwnedMatrix<T>& dy,
                          MatrixView<T> dmemory) const;

  /// The bytes for sequences and those of the other stack's result.
  template <class T>
  PassBytes bytes(const Sequences& sequences, const Sequences& memory) const;

  /// Adds the layer's attentions in a forward pass to `sites`, as views of the arguments.
  template <class T>
  void add_sites(const Sequences& sequences, MatrixView<const T> x, const Memory<T>& memory,
                 const Kept<T>& kept, std::vector<AttentionSite<T>>& sites) const;

  /// The keys and values of earlier positions, and of the other stack's result.
  template <class T>
  struct Past {
    AttentionLayer::KeptKeys<T> self, cross;
  };

  /// The past of one sequence that has no positions yet and may have `most`. With attention to a
  /// memory, requires a memory of one sequence whose length is in 1 … most_memory.
  template <class T>
  Past<T> no_past(const Slot<T>& slot, const Memory<T>& memory, Index most_memory,
                  Index most) const;

  /// The rows of `forward` for the next position of some sequences with the same memory, one row
  /// each. Requires causal self-attention; throws like AttentionLayer::attend.
  template <class T>
  OwnedMatrix<T> extend(const Slot<T>& slot, MatrixView<const T> x, Past<T>& past) const;

  /// Null if there is no such attention.
  const AttentionLayer* self() const { return self_ ? &self_->layer : nullptr; }
  const AttentionLayer* cross() const { return cross_ ? &cross_->layer : nullptr; }

 private:
  // An attention in its Residual.
  struct Attention {
    AttentionLayer layer;
    Residual around;
  };
  static std::optional<Attention> attention_at(Parameters& parameters, const std::string& prefix,
                                               const std::string& norm_name,
                                               const LayerOptions& layer,
                                               const LayerAttention& attention,
                                               std::uint32_t norm_place, std::uint32_t place);

  template <class T, class Self, class Cross>
  OwnedMatrix<T> pass(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept, const Self& self,
                      const Cross& cross) const;

  // What the last sub-layer reads, in a forward pass from x.
  template <class T>
  MatrixView<const T> before_inner(MatrixView<const T> x, const Kept<T>& kept) const;
  template <class T>
  MatrixView<const T> before_cross(MatrixView<const T> x, const Kept<T>& kept) const;

  // In the order of their tensors.
  std::optional<Attention> self_;
  FeedForward inner_;
  Residual around_inner_;
  std::optional<Attention> cross_;
};

}  // namespace attn::train
