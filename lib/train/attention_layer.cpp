#include "train/attention_layer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "kernel/gemm.hpp"

namespace attn::train {
namespace {

// Calls body(row of the matrix, place in the heads' array) for each position of each head.
template <class Body>
void for_each_head_row(const Sequences& sequences, Index heads, Index depth, const Body& body) {
  for (Index b = 0; b < sequences.count; ++b) {
    for (Index i = 0; i < sequences.length; ++i) {
      for (Index h = 0; h < heads; ++h) {
        body(b * sequences.length + i, h, ((b * heads + h) * sequences.length + i) * depth);
      }
    }
  }
}

// The columns of `rows` from `first` on, head by head: (sequences, heads, positions, depth).
template <class T>
Rows<T> split_heads(MatrixView<const T> rows, Index first, const Sequences& sequences, Index heads,
                    Index depth) {
  Rows<T> split(sequences.rows() * heads, depth);
  for_each_head_row(sequences, heads, depth, [&](Index row, Index head, Index place) {
    std::copy_n(rows.row(row) + first + head * depth, depth, split.data() + place);
  });
  return split;
}

// The reverse of split_heads.
template <class T>
void join_heads(const Rows<T>& split, MatrixView<T> rows, Index first, const Sequences& sequences,
                Index heads, Index depth) {
  for_each_head_row(sequences, heads, depth, [&](Index row, Index head, Index place) {
    std::copy_n(split.data() + place, depth, rows.row(row) + first + head * depth);
  });
}

// Two matrices of which the second lies directly behind the first, as one.
MatrixPlace stacked(const MatrixPlace& first, const MatrixPlace& second) {
  return {first.offset, first.rows + second.rows, first.cols};
}

// W x_i for each row x_i.
template <class T>
Rows<T> product(const Slot<T>& slot, const MatrixPlace& place, MatrixView<const T> from) {
  Rows<T> made(from.rows, place.rows);
  kernel::multiply_transposed(T{1}, from, place.in(slot.weights), made.view());
  return made;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

AttentionLayer::AttentionLayer(Parameters& parameters, const std::string& prefix,
                               const AttentionLayerOptions& options, std::uint32_t place)
    : options_(options), dropout_place_(place) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw Error(Failure::usage, "the number of heads is " + std::to_string(options.heads) +
                                    ", which does not divide the width " +
                                    std::to_string(options.width));
  }
  const Index inner = options.heads * options.depth();
  wq_ = parameters.add_matrix(prefix + "wq", inner, options.width, options.deviation);
  wk_ = parameters.add_matrix(prefix + "wk", inner, options.width, options.deviation);
  wv_ = parameters.add_matrix(prefix + "wv", inner, options.width, options.deviation);
  wo_ = parameters.add_matrix(prefix + "wo", options.width, inner, options.out_deviation);
  if (options.scheme.scheme == Scheme::hnas) {
    const double rho = std::log(options.first_share / (1 - options.first_share));
    rho_ = parameters.add_vector(prefix + "rho", rho_count(), rho);
  }
}

Index AttentionLayer::rho_count() const {
  return options_.scheme.share_by_head ? options_.heads : 1;
}

AttentionExtents AttentionLayer::extents(const Sequences& queries, const Sequences& keys) const {
  return {.scheme = options_.scheme,
          .causal = options_.causal,
          .sequences = queries.count,
          .heads = options_.heads,
          .queries = queries.length,
          .keys = keys.length,
          .depth = options_.depth(),
          .padded_queries = queries.lengths != nullptr,
          .padded_keys = keys.lengths != nullptr,
          .in_paths = options_.in_paths};
}

template <class T>
std::vector<double> AttentionLayer::shares(const T* weights) const {
  if (options_.scheme.scheme != Scheme::hnas) return {};
  std::vector<double> shares;
  for (Index h = 0; h < rho_count(); ++h) {
    shares.push_back(logistic(static_cast<double>(weights[rho_ + h])));
  }
  return shares;
}

namespace {

// The operands of a plan for `extents`.
template <class T>
AttentionInputs<T> inputs_of(const AttentionExtents& extents, const Rows<T>& q, const Rows<T>& k,
                             const Rows<T>& v, const Sequences& queries, const Sequences& keys,
                             const std::vector<double>& shares) {
  AttentionInputs<T> in;
  in.q = {q.data(), {extents.sequences, extents.heads, extents.queries, extents.depth}};
  in.k = {k.data(), {extents.sequences, extents.heads, extents.keys, extents.depth}};
  in.v = {v.data(), in.k.shape};
  if (extents.padded_queries) in.query_length = {queries.lengths, {extents.sequences}};
  if (extents.padded_keys) in.key_length = {keys.lengths, {extents.sequences}};
  if (!shares.empty()) {
    in.hybrid = {shares.data(), extents.scheme.share_by_head ? Shape{extents.heads} : Shape{}};
  }
  return in;
}

template <class T>
AttentionResults<T> results_of(const AttentionLayer::Kept<T>& kept, const AttentionPlan<T>& plan,
                               bool mixture) {
  AttentionResults<T> results;
  results.out = {kept.out.data(), plan.out_shape()};
  results.row_potential = {kept.row_potential.data(), plan.query_shape()};
  results.col_potential = {kept.col_potential.data(), plan.key_shape()};
  if (mixture) results.unas_row_potential = {kept.unas_row_potential.data(), plan.query_shape()};
  return results;
}

}  // namespace

template <class T>
void AttentionLayer::project(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                             const Sequences& keys, MatrixView<const T> y, Kept<T>& kept) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index inner = heads * depth;
  const bool same = x.data == y.data;
  const Rows<T> first = product(slot, same ? stacked(stacked(wq_, wk_), wv_) : wq_, x);
  kept.q = split_heads(first.view(), 0, queries, heads, depth);
  const Rows<T> second = same ? Rows<T>() : product(slot, stacked(wk_, wv_), y);
  const MatrixView<const T> pairs = same ? first.view() : second.view();
  kept.k = split_heads(pairs, same ? inner : 0, keys, heads, depth);
  kept.v = split_heads(pairs, same ? 2 * inner : inner, keys, heads, depth);
}

template <class T>
Rows<T> AttentionLayer::joined_out(const Slot<T>& slot, const Rows<T>& out,
                                   const Sequences& queries) const {
  const Index depth = options_.depth();
  Rows<T> joined(queries.rows(), options_.heads * depth);
  join_heads(out, joined.view(), 0, queries, options_.heads, depth);
  return product(slot, wo_, std::as_const(joined).view());
}

template <class T>
Rows<T> AttentionLayer::forward(const Slot<T>& slot, const Sequences& queries,
                                MatrixView<const T> x, const Sequences& keys, MatrixView<const T> y,
                                Kept<T>& kept) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  project(slot, queries, x, keys, y, kept);
  const AttentionExtents made_for = extents(queries, keys);
  const std::vector<double> shares = this->shares(slot.weights);
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  AttentionOutputs<T> outputs;
  kept.out = Rows<T>(queries.rows() * heads, depth);
  outputs.out = {kept.out.data(), plan.out_shape()};
  kept.row_potential = Rows<double>(queries.rows() * heads, 1);
  outputs.row_potential = {kept.row_potential.data(), plan.query_shape()};
  kept.col_potential = Rows<double>(keys.rows() * heads, 1);
  outputs.col_potential = {kept.col_potential.data(), plan.key_shape()};
  if (!shares.empty()) {
    kept.unas_row_potential = Rows<double>(queries.rows() * heads, 1);
    outputs.unas_row_potential = {kept.unas_row_potential.data(), plan.query_shape()};
  }
  slot.dropout.apply_to_weights(plan, dropout_place_);
  plan.run(inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, shares), outputs);
  return joined_out(slot, kept.out, queries);
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

  const AttentionExtents made_for = extents(queries, keys);
  const std::vector<double> shares = this->shares(slot.weights);
  const AttentionInputs<T> in = inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, shares);
  Rows<T> dq(queries.rows() * heads, depth);
  Rows<T> dk(keys.rows() * heads, depth);
  Rows<T> dv(keys.rows() * heads, depth);
  AttentionGradients<T> gradients;
  gradients.q = {dq.data(), in.q.shape};
  gradients.k = {dk.data(), in.k.shape};
  gradients.v = {dv.data(), in.v.shape};
  T* const drho = slot.gradients + rho_;
  if (!shares.empty()) gradients.hybrid = {drho, in.hybrid.shape};
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  slot.dropout.apply_to_weights(plan, dropout_place_);
  const TensorView<const T> upstream(grad_out.data(), plan.out_shape());
  if (options_.scheme.scheme == Scheme::sinkhorn) {
    plan.gradients(in, upstream, gradients);
  } else {
    plan.gradients_from(in, results_of(kept, plan, !shares.empty()), upstream, gradients);
  }
  for (std::size_t h = 0; h < shares.size(); ++h) {
    drho[h] *= static_cast<T>(shares[h] * (1 - shares[h]));
  }

  const auto back = [&](const MatrixPlace& place, MatrixView<const T> from, Rows<T>& above,
                        MatrixView<T> sum) {
    const MatrixView<const T> read = std::as_const(above).view();
    kernel::transposed_product(read, from, place.in(slot.gradients));
    kernel::multiply_add(read, place.in(slot.weights), sum);
  };
  if (x.data == y.data) {
    Rows<T> all(queries.rows(), 3 * inner);
    join_heads(dq, all.view(), 0, queries, heads, depth);
    join_heads(dk, all.view(), inner, keys, heads, depth);
    join_heads(dv, all.view(), 2 * inner, keys, heads, depth);
    back(stacked(stacked(wq_, wk_), wv_), x, all, dx);
  } else {
    join_heads(dq, djoined.view(), 0, queries, heads, depth);
    back(wq_, x, djoined, dx);
    Rows<T> pairs(keys.rows(), 2 * inner);
    join_heads(dk, pairs.view(), 0, keys, heads, depth);
    join_heads(dv, pairs.view(), inner, keys, heads, depth);
    back(stacked(wk_, wv_), y, pairs, dy);
  }
}

template <class T>
void AttentionLayer::KeptKeys<T>::choose(const std::vector<Index>& from) {
  const Index block = k.size() / std::ssize(lengths);
  KeptKeys chosen;
  chosen.most = most;
  chosen.k = Rows<T>(block / k.cols() * std::ssize(from), k.cols());
  chosen.v = Rows<T>(chosen.k.rows(), k.cols());
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
  return {Rows<T>::zeros(rows, options_.depth()), Rows<T>::zeros(rows, options_.depth()), most,
          std::vector<Index>(static_cast<std::size_t>(sequences), 0)};
}

template <class T>
void AttentionLayer::add_keys(const Slot<T>& slot, MatrixView<const T> y, KeptKeys<T>& keys) const {
  const Index heads = options_.heads;
  const Index depth = options_.depth();
  const Index count = std::ssize(keys.lengths);
  const Sequences added = {count, y.rows / count};
  const Rows<T> pairs = product(slot, stacked(wk_, wv_), y);
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
Rows<T> AttentionLayer::attend(const Slot<T>& slot, MatrixView<const T> x,
                               const KeptKeys<T>& keys) const {
  if (options_.scheme.scheme != Scheme::unas) {
    throw Error(Failure::usage, "only under unas can queries attend one after the other");
  }
  const Index count = std::ssize(keys.lengths);
  const Sequences queries = {count, x.rows / count};
  const Sequences all = {count, keys.most, keys.lengths.data()};
  AttentionExtents made_for = extents(queries, all);
  made_for.causal = false;  // later keys are not there yet
  const Rows<T> projected = product(slot, wq_, x);
  const Rows<T> q = split_heads(projected.view(), 0, queries, options_.heads, options_.depth());
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  slot.dropout.apply_to_weights(plan, dropout_place_);
  Rows<T> out(q.rows(), q.cols());
  AttentionOutputs<T> outputs;
  outputs.out = {out.data(), plan.out_shape()};
  plan.run(inputs_of(made_for, q, keys.k, keys.v, queries, all, {}), outputs);
  return joined_out(slot, out, queries);
}

#define ATTN_ATTENTION_LAYER(T)                                                                    \
  template Rows<T> AttentionLayer::forward(const Slot<T>&, const Sequences&, MatrixView<const T>,  \
                                           const Sequences&, MatrixView<const T>, Kept<T>&) const; \
  template void AttentionLayer::backward(const Slot<T>&, const Sequences&, MatrixView<const T>,    \
                                         const Sequences&, MatrixView<const T>, const Kept<T>&,    \
                                         MatrixView<const T>, MatrixView<T>, MatrixView<T>) const; \
  template struct AttentionLayer::KeptKeys<T>;                                                     \
  template AttentionLayer::KeptKeys<T> AttentionLayer::no_keys(Index, Index) const;                \
  template void AttentionLayer::add_keys(const Slot<T>&, MatrixView<const T>, KeptKeys<T>&) const; \
  template Rows<T> AttentionLayer::attend(const Slot<T>&, MatrixView<const T>, const KeptKeys<T>&) \
      const;                                                                                       \
  template std::vector<double> AttentionLayer::shares(const T*) const;
ATTN_ATTENTION_LAYER(float)
ATTN_ATTENTION_LAYER(double)
#undef ATTN_ATTENTION_LAYER

}  // namespace attn::train
