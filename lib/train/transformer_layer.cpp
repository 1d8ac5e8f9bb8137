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
          .first_share = attention.first_share,
          .deviation = layer.deviation,
          .out_deviation = layer.out_deviation,
          .in_paths = attention.in_paths};
}

}  // namespace

TransformerLayer::TransformerLayer(Parameters& parameters, const std::string& prefix,
                                   const std::string& self_group, const LayerOptions& options,
                                   const LayerAttention& self,
                                   const std::optional<LayerAttention>& cross, std::uint32_t place)
    : self_(parameters, prefix + self_group, attention_options(options, self), place + 3),
      around_self_(parameters, prefix + "norm/self", options.width, options.order, place),
      inner_(parameters, prefix + "ffn/", options.width, options.inner, options.activation,
             options.deviation, options.out_deviation),
      around_inner_(parameters, prefix + "norm/ffn", options.width, options.order, place + 2) {
  if (!cross) return;
  cross_.emplace(parameters, prefix + "cross/", attention_options(options, *cross), place + 4);
  around_cross_.emplace(parameters, prefix + "norm/cross", options.width, options.order, place + 1);
}

// `self` and `cross` map the input of attention to its result.
template <class T, class Self, class Cross>
OwnedMatrix<T> TransformerLayer::pass(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept,
                                      const Self& self, const Cross& cross) const {
  kept.after_self = around_self_.forward(slot, x, kept.around_self, self);
  MatrixView<const T> last = std::as_const(kept.after_self).view();
  if (cross_) {
    kept.after_cross = around_cross_->forward(slot, last, kept.around_cross, cross);
    last = std::as_const(kept.after_cross).view();
  }
  return around_inner_.forward(slot, last, kept.around_inner, [&](MatrixView<const T> in) {
    return inner_.forward(slot, in, kept.inner);
  });
}

template <class T>
OwnedMatrix<T> TransformerLayer::forward(const Slot<T>& slot, const Sequences& sequences,
                                         MatrixView<const T> x, const Memory<T>& memory,
                                         Kept<T>& kept) const {
  using Input = MatrixView<const T>;
  return pass(
      slot, x, kept,
      [&](Input in) { return self_.forward(slot, sequences, in, sequences, in, kept.self); },
      [&](Input in) {
        return cross_->forward(slot, sequences, in, memory.sequences, memory.rows, kept.cross);
      });
}

template <class T>
void TransformerLayer::add_sites(const Sequences& sequences, MatrixView<const T> x,
                                 const Memory<T>& memory, const Kept<T>& kept,
                                 std::vector<AttentionSite<T>>& sites) const {
  const MatrixView<const T> in = around_self_.input(x, kept.around_self);
  sites.push_back({&self_, sequences, sequences, in, in, &kept.self});
  if (!cross_) return;
  sites.push_back({&*cross_, sequences, memory.sequences,
                   around_cross_->input(kept.after_self.view(), kept.around_cross), memory.rows,
                   &kept.cross});
}

template <class T>
TransformerLayer::Past<T> TransformerLayer::no_past(const Slot<T>& slot, const Memory<T>& memory,
                                                    Index most_memory, Index most) const {
  Past<T> past;
  past.self = self_.template no_keys<T>(1, most);
  if (!cross_) return past;
  past.cross = cross_->template no_keys<T>(1, most_memory);
  cross_->add_keys(slot, memory.rows, past.cross);
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
        self_.add_keys(slot, in, past.self);
        return self_.attend(slot, in, past.self);
      },
      // For attention, the sequences are queries of one memory.
      [&](Input in) { return cross_->attend(slot, in, past.cross); });
}

template <class T>
OwnedMatrix<T> TransformerLayer::backward(const Slot<T>& slot, const Sequences& sequences,
                                          MatrixView<const T> x, const Memory<T>& memory,
                                          const Kept<T>& kept, const OwnedMatrix<T>& dy,
                                          MatrixView<T> dmemory) const {
  using Input = MatrixView<const T>;
  const Input after_self = kept.after_self.view();
  OwnedMatrix<T> d =
      around_inner_.backward(slot, cross_ ? kept.after_cross.view() : after_self, kept.around_inner,
                             dy, [&](Input in, Input df, MatrixView<T> sum) {
                               inner_.backward(slot, in, kept.inner, df, sum);
                             });
  if (cross_) {
    d = around_cross_->backward(slot, after_self, kept.around_cross, d,
                                [&](Input in, Input df, MatrixView<T> sum) {
                                  cross_->backward(slot, sequences, in, memory.sequences,
                                                   memory.rows, kept.cross, df, sum, dmemory);
                                });
  }
  return around_self_.backward(
      slot, x, kept.around_self, d, [&](Input in, Input df, MatrixView<T> sum) {
        self_.backward(slot, sequences, in, sequences, in, kept.self, df, sum, sum);
      });
}

template <class T>
PassBytes TransformerLayer::bytes(const Sequences& sequences, const Sequences& memory) const {
  const Index rows = sequences.rows();
  const std::int64_t all = row_bytes<T>(rows, around_inner_.width());
  PassBytes found = around_self_.bytes<T>(rows, self_.bytes<T>(sequences, sequences, true));
  found.kept += all;
  if (cross_) {
    found = found.then(around_cross_->bytes<T>(rows, cross_->bytes<T>(sequences, memory, false)));
    found.kept += all;
  }
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
