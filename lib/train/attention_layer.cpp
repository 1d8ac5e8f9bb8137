#include "train/attention_layer.hpp"

#include <utility>

#include "kernel/product.hpp"
#include "train/heads.hpp"

namespace attn::train {
namespace {

// Two matrices as one; the second directly follows the first in memory.
MatrixPlace stacked(const MatrixPlace& first, const MatrixPlace& second) {
  return {first.offset, first.rows + second.rows, first.cols};
}

// W x_i for each row x_i.
template <class T>
OwnedMatrix<T> product(const Slot<T>& slot, const MatrixPlace& place, MatrixView<const T> from) {
  OwnedMatrix<T> made(from.rows, place.rows);
  kernel::multiply_transposed(from, place.in(slot.weights), made.view());
  return made;
}

HeadAttentionOptions head_options(const AttentionLayerOptions& options) {
  if (options.scheme.em) {
    throw Error(Failure::usage, "expectation-maximisation is for multi-view attention only");
  }
  return {.scheme = options.scheme,
          .causal = options.causal,
          .heads = options.heads,
          .depth = depth_of_heads(options.width, options.heads),
          .positions = options.positions,
          .first_share = options.first_share,
          .in_paths = options.in_paths};
}

}  // namespace

AttentionLayer::AttentionLayer(Parameters& parameters, const std::string& prefix,
                               const AttentionLayerOptions& options, std::uint32_t place)
    : options_(options),
      group_(prefix.substr(0, prefix.find_last_of('/'))),
      wq_(parameters.add_matrix(prefix + "wq", options.width, options.width, options.deviation)),
      wk_(parameters.add_matrix(prefix + "wk", options.width, options.width, options.deviation)),
      wv_(parameters.add_matrix(prefix + "wv", options.width, options.width, options.deviation)),
      wo_(parameters.add_matrix(prefix + "wo", options.width, options.width,
                                options.out_deviation)),
      heads_(parameters, prefix, head_options(options), place) {}

template <class T>
void AttentionLayer::project(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                             const Sequences& keys, MatrixView<const T> y, Kept<T>& kept) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index inner = heads * depth;
  const bool same = x.data == y.data;
  const OwnedMatrix<T> first = product(slot, same ? stacked(stacked(wq_, wk_), wv_) : wq_, x);
  kept.q = split_heads(first.view(), 0, queries, heads, depth);
  const OwnedMatrix<T> second = same ? OwnedMatrix<T>() : product(slot, stacked(wk_, wv_), y);
  const MatrixView<const T> pairs = same ? first.view() : second.view();
  kept.k = split_heads(pairs, same ? inner : 0, keys, heads, depth);
  kept.v = split_heads(pairs, same ? 2 * inner : inner, keys, heads, depth);
}

template <class T>
OwnedMatrix<T> AttentionLayer::joined_out(const Slot<T>& slot, const OwnedMatrix<T>& out,
                                          const Sequences& queries) const {
  const Index depth = options_.depth();
  OwnedMatrix<T> joined(queries.rows(), options_.heads * depth);
  join_heads(out, joined.view(), 0, queries, options_.heads, depth);
  return product(slot, wo_, std::as_const(joined).view());
}

template <class T>
OwnedMatrix<T> AttentionLayer::forward(const Slot<T>& slot, const Sequences& queries,
                                       MatrixView<const T> x, const Sequences& keys,
                                       MatrixView<const T> y, Kept<T>& kept) const {
  project(slot, queries, x, keys, y, kept);
  heads_.forward(slot, queries, keys, kept);
  return joined_out(slot, kept.out, queries);
}

template <class T>
void AttentionLayer::backward(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                              const Sequences& keys, MatrixView<const T> y, const Kept<T>& kept,
                              MatrixView<const T> dout, MatrixView<T> dx, MatrixView<T> dy) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index inner = heads * depth;
  OwnedMatrix<T> djoined(queries.rows(), inner);
  join_heads(kept.out, djoined.view(), 0, queries, heads, depth);
  kernel::transposed_product(dout, std::as_const(djoined).view(), wo_.in(slot.gradients));
  kernel::multiply(dout, wo_.in(slot.weights), djoined.view());
  const OwnedMatrix<T> grad_out =
      split_heads(std::as_const(djoined).view(), 0, queries, heads, depth);

  const HeadAttention::Gradients<T> d = heads_.backward(slot, queries, keys, kept, grad_out);
  const auto back = [&](const MatrixPlace& place, MatrixView<const T> from, OwnedMatrix<T>& above,
                        MatrixView<T> sum) {
    const MatrixView<const T> read = std::as_const(above).view();
    kernel::transposed_product(read, from, place.in(slot.gradients));
    kernel::multiply_add(read, place.in(slot.weights), sum);
  };
  if (x.data == y.data) {
    OwnedMatrix<T> all(queries.rows(), 3 * inner);
    join_heads(d.q, all.view(), 0, queries, heads, depth);
    join_heads(d.k, all.view(), inner, keys, heads, depth);
    join_heads(d.v, all.view(), 2 * inner, keys, heads, depth);
    back(stacked(stacked(wq_, wk_), wv_), x, all, dx);
  } else {
    join_heads(d.q, djoined.view(), 0, queries, heads, depth);
    back(wq_, x, djoined, dx);
    OwnedMatrix<T> pairs(keys.rows(), 2 * inner);
    join_heads(d.k, pairs.view(), 0, keys, heads, depth);
    join_heads(d.v, pairs.view(), inner, keys, heads, depth);
    back(stacked(wk_, wv_), y, pairs, dy);
  }
}

template <class T>
PassBytes AttentionLayer::bytes(const Sequences& queries, const Sequences& keys, bool same) const {
  const PassBytes heads = heads_.bytes<T>(queries, keys);
  const std::int64_t all = row_bytes<T>(queries.rows(), options_.width);
  const std::int64_t pairs = row_bytes<T>(keys.rows(), 2 * options_.width);
  return {heads.kept, std::max({all + pairs, 2 * all, heads.forward}),
          2 * all + heads.backward + (same ? all : 0) + pairs};
}

template <class T>
void AttentionLayer::KeptKeys<T>::choose(const std::vector<Index>& from) {
  const Index block = k.size() / std::ssize(lengths);
  KeptKeys chosen;
  chosen.most = most;
  chosen.k = OwnedMatrix<T>(block / k.cols() * std::ssize(from), k.cols());
  chosen.v = OwnedMatrix<T>(chosen.k.rows(), k.cols());
  for (std::size_t n = 0; n < from.size(); ++n) {
    const Index to = static_cast<Index>(n) * block;
    std::copy_n(k.data() + from[n] * block, block, chosen.k.data() + to);
    std::copy_n(v.data() + from[n] * block, block, chosen.v.data() + to);
    chosen.lengths.push_back(lengths[static_cast<std::size_t>(from[n])]);
  }
  *this = std::move(chosen);
}

template <class T>
AttentionLayer::KeptKeys<T> AttentionLayer::no_keys(Index sequences, Index most) const {
  const Index rows = sequences * options_.heads * most;
  return {OwnedMatrix<T>::zeros(rows, options_.depth()),
          OwnedMatrix<T>::zeros(rows, options_.depth()), most,
          std::vector<Index>(static_cast<std::size_t>(sequences), 0)};
}

template <class T>
void AttentionLayer::add_keys(const Slot<T>& slot, MatrixView<const T> y, KeptKeys<T>& keys) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index count = std::ssize(keys.lengths);
  const Sequences added = {count, y.rows / count};
  const OwnedMatrix<T> pairs = product(slot, stacked(wk_, wv_), y);
  for_each_head_row(added, heads, depth, [&](Index row, Index head, Index) {
    const Index n = row / added.length;
    const Index position = keys.lengths[static_cast<std::size_t>(n)] + row % added.length;
    const Index place = ((n * heads + head) * keys.most + position) * depth;
    const T* const from = pairs.view().row(row) + head * depth;
    std::copy_n(from, depth, keys.k.data() + place);
    std::copy_n(from + heads * depth, depth, keys.v.data() + place);
  });
  for (Index& length : keys.lengths) length += added.length;
}

template <class T>
OwnedMatrix<T> AttentionLayer::attend(const Slot<T>& slot, MatrixView<const T> x,
                                      const KeptKeys<T>& keys) const {
  const Index count = std::ssize(keys.lengths);
  const Sequences queries = {count, x.rows / count};
  const Sequences all = {count, keys.most, keys.lengths.data()};
  const OwnedMatrix<T> projected = product(slot, wq_, x);
  const OwnedMatrix<T> q =
      split_heads(projected.view(), 0, queries, options_.heads, options_.depth());
  return joined_out(slot, heads_.attend(slot, queries, all, q, keys.k, keys.v), queries);
}

#define ATTN_ATTENTION_LAYER(T)                                                                    \
  template OwnedMatrix<T> AttentionLayer::forward(const Slot<T>&, const Sequences&,                \
                                                  MatrixView<const T>, const Sequences&,           \
                                                  MatrixView<const T>, Kept<T>&) const;            \
  template void AttentionLayer::backward(const Slot<T>&, const Sequences&, MatrixView<const T>,    \
                                         const Sequences&, MatrixView<const T>, const Kept<T>&,    \
                                         MatrixView<const T>, MatrixView<T>, MatrixView<T>) const; \
  template PassBytes AttentionLayer::bytes<T>(const Sequences&, const Sequences&, bool) const;     \
  template struct AttentionLayer::KeptKeys<T>;                                                     \
  template AttentionLayer::KeptKeys<T> AttentionLayer::no_keys(Index, Index) const;                \
  template void AttentionLayer::add_keys(const Slot<T>&, MatrixView<const T>, KeptKeys<T>&) const; \
  template OwnedMatrix<T> AttentionLayer::attend(const Slot<T>&, MatrixView<const T>,              \
                                                 const KeptKeys<T>&) const;
ATTN_ATTENTION_LAYER(float)
ATTN_ATTENTION_LAYER(double)
#undef ATTN_ATTENTION_LAYER

}  // namespace attn::train
