#include "train/attention_layer.hpp"

#include <utility>

#include "kernel/gemm.hpp"
#include "train/heads.hpp"

namespace attn::train {
namespace {

// Two matrices of which the second lies directly behind the first, as one.
MatrixPlace stacked(const MatrixPlace& first, const MatrixPlace& second) {
  return {first.offset, first.rows + second.rows, first.cols};
}

HeadAttentionOptions head_options(const AttentionLayerOptions& options) {
  return {.scheme = options.scheme,
          .causal = options.causal,
          .heads = options.heads,
          .depth = depth_of_heads(options.width, options.heads),
          .first_share = options.first_share,
          .in_paths = options.in_paths};
}

}  // namespace

AttentionLayer::AttentionLayer(Parameters& parameters, const std::string& prefix,
                               const AttentionLayerOptions& options, std::uint32_t place)
    : options_(options),
      wq_(parameters.add_matrix(prefix + "wq", options.width, options.width, options.deviation)),
      wk_(parameters.add_matrix(prefix + "wk", options.width, options.width, options.deviation)),
      wv_(parameters.add_matrix(prefix + "wv", options.width, options.width, options.deviation)),
      wo_(parameters.add_matrix(prefix + "wo", options.width, options.width,
                                options.out_deviation)),
      heads_(parameters, prefix, head_options(options), place) {}

template <class T>
Rows<T> AttentionLayer::forward(const Slot<T>& slot, const Sequences& queries,
                                MatrixView<const T> x, const Sequences& keys, MatrixView<const T> y,
                                Kept<T>& kept) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index inner = heads * depth;
  const auto project = [&](const MatrixPlace& place, MatrixView<const T> from) {
    Rows<T> made(from.rows, place.rows);
    kernel::multiply_transposed(T{1}, from, place.in(slot.weights), made.view());
    return made;
  };
  const bool same = x.data == y.data;
  {
    const Rows<T> first = project(same ? stacked(stacked(wq_, wk_), wv_) : wq_, x);
    kept.q = split_heads(first.view(), 0, queries, heads, depth);
    const Rows<T> second = same ? Rows<T>() : project(stacked(wk_, wv_), y);
    const MatrixView<const T> pairs = same ? first.view() : second.view();
    kept.k = split_heads(pairs, same ? inner : 0, keys, heads, depth);
    kept.v = split_heads(pairs, same ? 2 * inner : inner, keys, heads, depth);
  }
  heads_.forward(slot, queries, keys, kept);
  Rows<T> joined(queries.rows(), inner);
  join_heads(kept.out, joined.view(), 0, queries, heads, depth);
  return project(wo_, std::as_const(joined).view());
}

template <class T>
void AttentionLayer::backward(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                              const Sequences& keys, MatrixView<const T> y, const Kept<T>& kept,
                              MatrixView<const T> dout, MatrixView<T> dx, MatrixView<T> dy) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index inner = heads * depth;
  Rows<T> djoined(queries.rows(), inner);
  join_heads(kept.out, djoined.view(), 0, queries, heads, depth);
  kernel::transposed_product(dout, std::as_const(djoined).view(), wo_.in(slot.gradients));
  kernel::multiply(dout, wo_.in(slot.weights), djoined.view());
  const Rows<T> grad_out = split_heads(std::as_const(djoined).view(), 0, queries, heads, depth);

  const HeadAttention::Gradients<T> d = heads_.backward(slot, queries, keys, kept, grad_out);
  const auto back = [&](const MatrixPlace& place, MatrixView<const T> from, Rows<T>& above,
                        MatrixView<T> sum) {
    const MatrixView<const T> read = std::as_const(above).view();
    kernel::transposed_product(read, from, place.in(slot.gradients));
    kernel::multiply_add(read, place.in(slot.weights), sum);
  };
  if (x.data == y.data) {
    Rows<T> all(queries.rows(), 3 * inner);
    join_heads(d.q, all.view(), 0, queries, heads, depth);
    join_heads(d.k, all.view(), inner, keys, heads, depth);
    join_heads(d.v, all.view(), 2 * inner, keys, heads, depth);
    back(stacked(stacked(wq_, wk_), wv_), x, all, dx);
  } else {
    join_heads(d.q, djoined.view(), 0, queries, heads, depth);
    back(wq_, x, djoined, dx);
    Rows<T> pairs(keys.rows(), 2 * inner);
    join_heads(d.k, pairs.view(), 0, keys, heads, depth);
    join_heads(d.v, pairs.view(), inner, keys, heads, depth);
    back(stacked(wk_, wv_), y, pairs, dy);
  }
}

#define ATTN_ATTENTION_LAYER(T)                                                                    \
  template Rows<T> AttentionLayer::forward(const Slot<T>&, const Sequences&, MatrixView<const T>,  \
                                           const Sequences&, MatrixView<const T>, Kept<T>&) const; \
  template void AttentionLayer::backward(const Slot<T>&, const Sequences&, MatrixView<const T>,    \
                                         const Sequences&, MatrixView<const T>, const Kept<T>&,    \
                                         MatrixView<const T>, MatrixView<T>, MatrixView<T>) const;
ATTN_ATTENTION_LAYER(float)
ATTN_ATTENTION_LAYER(double)
#undef ATTN_ATTENTION_LAYER

}  // namespace attn::train
