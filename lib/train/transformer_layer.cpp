#include "train/transformer_layer.hpp"

#include <utility>

namespace attn::train {
namespace {

AttentionLayerOptions attention_options(const LayerOptions& layer,
                                        const LayerAttention& attention) {
  return {.scheme = attention.scheme,
          .causal = attention.causal,
          .width = layer.width,
          .heads = layer.heads,
          .positions = attention.positions,
          .first_share = attention.first_share,
          .deviation = layer.deviation,
          .out_deviation = layer.out_deviation,
          .in_paths = attention.in_paths};
}

}  // namespace

std::optional<TransformerLayer::Attention> TransformerLayer::attention_at(
    Parameters& parameters, const std::string& prefix, const std::string& norm_name,
    const LayerOptions& layer, const LayerAttention& attention, std::uint32_t norm_place,
    std::uint32_t place) {
  if (attention.left_out) return std::nullopt;
  return Attention{AttentionLayer(parameters, prefix, attention_options(layer, attention), place),
                   Residual(parameters, norm_name, layer.width, layer.order, norm_place)};
}

TransformerLayer::TransformerLayer(Parameters& parameters, const std::string& prefix,
                                   const std::string& self_group, const LayerOptions& options,
                                   const LayerAttention& self,
                                   const std::optional<LayerAttention>& cross, std::uint32_t place)
    : self_(attention_at(parameters, prefix + self_group, prefix + "norm/self", options, self,
                         place, place + 3)),
      inner_(parameters, prefix + "ffn/", options.width, options.inner, options.activation,
             options.deviation, options.out_deviation),
      around_inner_(parameters, prefix + "norm/ffn", options.width, options.order, place + 2) {
  if (!cross) return;
  cross_ = attention_at(parameters, prefix + "cross/", prefix + "norm/cross", options, *cross,
                        place + 1, place + 4);
}

template <class T>
MatrixView<const T> TransformerLayer::before_cross(MatrixView<const T> x,
                                                   const Kept<T>& kept) const {
  return self_ ? kept.after_self.view() : x;
}

template <class T>
MatrixView<const T> TransformerLayer::before_inner(MatrixView<const T> x,
                                                   const Kept<T>& kept) const {
  return cross_ ? kept.after_cross.view() : before_cross(x, kept);
}

// `self` and `cross` map the input of attention to its result.
template <class T, class Self, class Cross>
OwnedMatrix<T> TransformerLayer::pass(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept,
                                      const Self& self, const Cross& cross) const {
  if (self_) kept.after_self = self_->around.forward(slot, x, kept.around_self, self);
  if (cross_) {
    kept.after_cross =
        cross_->around.forward(slot, before_cross(x, kept), kept.around_cross, cross);
  }
  return around_inner_.forward(
      slot, before_inner(x, kept), kept.around_inner,
      [&](MatrixView<const T> in) { return inner_.forward(slot, in, kept.inner); });
}

template <class T>
OwnedMatrix<T> TransformerLayer::forward(const Slot<T>& slot, const Sequences& sequences,
                                         MatrixView<const T> x, const Memory<T>& memory,
                                         Kept<T>& kept) const {
  using Input = MatrixView<const T>;
  return pass(
      slot, x, kept,
      [&](Input in) { return self_->layer.forward(slot, sequences, in, sequences, in, kept.self); },
      [&](Input in) {
        return cross_->layer.forward(slot, sequences, in, memory.sequences, memory.rows,
                                     kept.cross);
      });
}

template <class T>
void TransformerLayer::add_sites(const Sequences& sequences, MatrixView<const T> x,
                                 const Memory<T>& memory, const Kept<T>& kept,
                                 std::vector<AttentionSite<T>>& sites) const {
  if (self_) {
    const MatrixView<const T> in = self_->around.input(x, kept.around_self);
    sites.push_back({&self_->layer, sequences, sequences, in, in, &kept.self});
  }
  if (!cross_) return;
  sites.push_back({&cross_->layer, sequences, memory.sequences,
                   cross_->around.input(before_cross(x, kept), kept.around_cross), memory.rows,
                   &kept.cross});
}

template <class T>
TransformerLayer::Past<T> TransformerLayer::no_past(const Slot<T>& slot, const Memory<T>& memory,
                                                    Index most_memory, Index most) const {
  Past<T> past;
  if (self_) past.self = self_->layer.template no_keys<T>(1, most);
  if (!cross_) return past;
  past.cross = cross_->layer.template no_keys<T>(1, most_memory);
  cross_->layer.add_keys(slot, memory.rows, past.cross);
  return past;
}

template <class T>
OwnedMatrix<T> TransformerLayer::extend(const Slot<T>& slot, MatrixView<const T> x,
                                        Past<T>& past) const {
  using Input = MatrixView<const T>;
  Kept<T> unused;
  return pass(
      slot, x, unused,
      [&](Input in) {
        self_->layer.add_keys(slot, in, past.self);
        return self_->layer.attend(slot, in, past.self);
      },
      // For attention, the sequences are queries of one memory.
      [&](Input in) { return cross_->layer.attend(slot, in, past.cross); });
}

template <class T>
OwnedMatrix<T> TransformerLayer::backward(const Slot<T>& slot, const Sequences& sequences,
                                          MatrixView<const T> x, const Memory<T>& memory,
                                          const Kept<T>& kept, const OwnedMatrix<T>& dy,
                                          MatrixView<T> dmemory) const {
  using Input = MatrixView<const T>;
  OwnedMatrix<T> d = around_inner_.backward(slot, before_inner(x, kept), kept.around_inner, dy,
                                            [&](Input in, Input df, MatrixView<T> sum) {
                                              inner_.backward(slot, in, kept.inner, df, sum);
                                            });
  if (cross_) {
    d = cross_->around.backward(slot, before_cross(x, kept), kept.around_cross, d,
                                [&](Input in, Input df, MatrixView<T> sum) {
                                  cross_->layer.backward(slot, sequences, in, memory.sequences,
                                                         memory.rows, kept.cross, df, sum, dmemory);
                                });
  }
  if (!self_) return d;
  return self_->around.backward(
      slot, x, kept.around_self, d, [&](Input in, Input df, MatrixView<T> sum) {
        self_->layer.backward(slot, sequences, in, sequences, in, kept.self, df, sum, sum);
      });
}

template <class T>
PassBytes TransformerLayer::bytes(const Sequences& sequences, const Sequences& memory) const {
  const Index rows = sequences.rows();
  const std::int64_t all = row_bytes<T>(rows, around_inner_.width());
  PassBytes found;
  const auto add = [&](const Attention& attention, const Sequences& keys, bool same) {
    found = found.then(
        attention.around.bytes<T>(rows, attention.layer.bytes<T>(sequences, keys, same)));
    found.kept += all;
  };
  if (self_) add(*self_, sequences, true);
  if (cross_) add(*cross_, memory, false);
  found = found.then(around_inner_.bytes<T>(rows, inner_.bytes<T>(rows)));
  // The gradient of a sub-layer's result, which exists while the gradient of its input is computed.
  found.backward += all;
  return found;
}

#define ATTN_TRANSFORMER_LAYER(T)                                                                 \
  template PassBytes TransformerLayer::bytes<T>(const Sequences&, const Sequences&) const;        \
  template void TransformerLayer::add_sites(const Sequences&, MatrixView<const T>,                \
                                            const Memory<T>&, const Kept<T>&,                     \
                                            std::vector<AttentionSite<T>>&) const;                \
  template TransformerLayer::Past<T> TransformerLayer::no_past(const Slot<T>&, const Memory<T>&,  \
                                                               Index, Index) const;               \
  template OwnedMatrix<T> TransformerLayer::extend(const Slot<T>&, MatrixView<const T>, Past<T>&) \
      const;                                                                                      \
  template OwnedMatrix<T> TransformerLayer::forward(                                              \
      const Slot<T>&, const Sequences&, MatrixView<const T>, const Memory<T>&, Kept<T>&) const;   \
  template OwnedMatrix<T> TransformerLayer::backward(                                             \
      const Slot<T>&, const Sequences&, MatrixView<const T>, const Memory<T>&, const Kept<T>&,    \
      const OwnedMatrix<T>&, MatrixView<T>) const;
ATTN_TRANSFORMER_LAYER(float)
ATTN_TRANSFORMER_LAYER(double)
#undef ATTN_TRANSFORMER_LAYER

}  // namespace attn::train
