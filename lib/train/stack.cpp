#include "train/stack.hpp"

#include <utility>

namespace attn::train {

Stack::Stack(Parameters& parameters, const Options& options)
    : embedding_(parameters, options.prefix + "embedding/", options.embedding, options.place) {
  for (Index n = 0; n < options.layers; ++n) {
    layers_.emplace_back(parameters, options.prefix + "layer" + std::to_string(n) + "/",
                         options.self_group, options.layer, options.self, options.cross,
                         options.place + 1 + 5 * static_cast<std::uint32_t>(n));
  }
  if (options.layer.order == NormOrder::pre) {
    norm_.emplace(parameters, options.prefix + "norm/last", options.layer.width);
  }
}

template <class T>
MatrixView<const T> Stack::forward(const Slot<T>& slot, const Sequences& sequences,
                                   const Index* tokens, const TransformerLayer::Memory<T>& memory,
                                   Kept<T>& kept) const {
  kept.inputs.clear();
  kept.inputs.push_back(embedding_.forward(slot, sequences, tokens));
  kept.layers.resize(layers_.size());
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    kept.inputs.push_back(layers_[n].forward(slot, sequences, std::as_const(kept.inputs[n]).view(),
                                             memory, kept.layers[n]));
  }
  const MatrixView<const T> last = std::as_const(kept.inputs.back()).view();
  if (!norm_) return last;
  kept.normal = norm_->forward(slot, last, kept.norm);
  return std::as_const(kept.normal).view();
}

template <class T>
OwnedMatrix<T> Stack::backward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                               const TransformerLayer::Memory<T>& memory, const Kept<T>& kept,
                               OwnedMatrix<T> dy, MatrixView<T> dmemory) const {
  if (norm_) {
    dy = norm_->backward(slot, kept.inputs.back().view(), kept.norm, std::as_const(dy).view());
  }
  for (std::size_t n = layers_.size(); n-- > 0;) {
    dy = layers_[n].backward(slot, sequences, kept.inputs[n].view(), memory, kept.layers[n], dy,
                             dmemory);
  }
  embedding_.backward(slot, sequences, tokens, dy);
  return dy;
}

template <class T>
void Stack::add_sites(const Sequences& sequences, const TransformerLayer::Memory<T>& memory,
                      const Kept<T>& kept, std::vector<AttentionSite<T>>& sites) const {
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    layers_[n].add_sites(sequences, kept.inputs[n].view(), memory, kept.layers[n], sites);
  }
}

template <class T>
void Stack::Past<T>::choose(const std::vector<Index>& from) {
  for (TransformerLayer::Past<T>& layer : layers) {
    // Without self-attention there is no past.
    if (!layer.self.lengths.empty()) layer.self.choose(from);
  }
}

template <class T>
Stack::Past<T> Stack::no_past(const Slot<T>& slot, const TransformerLayer::Memory<T>& memory,
                              Index most_memory, Index most) const {
  Past<T> past;
  for (const TransformerLayer& layer : layers_) {
    past.layers.push_back(layer.no_past(slot, memory, most_memory, most));
  }
  return past;
}

template <class T>
OwnedMatrix<T> Stack::extend(const Slot<T>& slot, const std::vector<Index>& tokens,
                             Past<T>& past) const {
  OwnedMatrix<T> x = embedding_.forward(slot, {std::ssize(tokens), 1}, tokens.data(), past.length);
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    x = layers_[n].extend(slot, std::as_const(x).view(), past.layers[n]);
  }
  ++past.length;
  if (!norm_) return x;
  LayerNorm::Kept<T> unused;
  return norm_->forward(slot, std::as_const(x).view(), unused);
}

template <class T>
PassBytes Stack::bytes(const Sequences& sequences, const Sequences& memory) const {
  const std::int64_t all = row_bytes<T>(sequences.rows(), embedding_.table().cols);
  PassBytes found = embedding_.bytes<T>(sequences);
  found.kept += all;
  for (const TransformerLayer& layer : layers_) {
    found = found.then(layer.bytes<T>(sequences, memory));
    found.kept += all;
  }
  if (norm_) {
    found = found.then(norm_->bytes<T>(sequences.rows()));
    found.kept += all;
  }
  // The gradient of a layer's result, which exists while the gradient of its input is computed.
  found.backward += all;
  return found;
}

#define ATTN_STACK(T)                                                                              \
  template PassBytes Stack::bytes<T>(const Sequences&, const Sequences&) const;                    \
  template void Stack::add_sites(const Sequences&, const TransformerLayer::Memory<T>&,             \
                                 const Kept<T>&, std::vector<AttentionSite<T>>&) const;            \
  template MatrixView<const T> Stack::forward(const Slot<T>&, const Sequences&, const Index*,      \
                                              const TransformerLayer::Memory<T>&, Kept<T>&) const; \
  template struct Stack::Past<T>;                                                                  \
  template Stack::Past<T> Stack::no_past(const Slot<T>&, const TransformerLayer::Memory<T>&,       \
                                         Index, Index) const;                                      \
  template OwnedMatrix<T> Stack::extend(const Slot<T>&, const std::vector<Index>&, Past<T>&)       \
      const;                                                                                       \
  template OwnedMatrix<T> Stack::backward(const Slot<T>&, const Sequences&, const Index*,          \
                                          const TransformerLayer::Memory<T>&, const Kept<T>&,      \
                                          OwnedMatrix<T>, MatrixView<T>) const;
ATTN_STACK(float)
ATTN_STACK(double)
#undef ATTN_STACK

}  // namespace attn::train
