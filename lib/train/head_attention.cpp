#include "train/head_attention.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"

namespace attn::train {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

template <class T>
AttentionResults<T> results_of(const HeadAttention::Kept<T>& kept, const AttentionPlan<T>& plan,
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
HeadAttention::Terms<T> HeadAttention::terms(const T* weights, Index keys) const {
  Terms<T> made;
  made.shares = shares(weights);
  const AttentionScheme& scheme = options_.scheme;
  if (scheme.has_preference()) {
    const T* const rho = weights + rho_;
    const T largest = keys > 0 ? *std::max_element(rho, rho + keys) : T{0};
    for (Index j = 0; j < keys; ++j) made.preference.push_back(std::exp(rho[j] - largest));
  }
  if (!scheme.is_transport()) return made;
  for (Index i = 0; i < keys; ++i) {
    for (Index j = 0; j < keys; ++j) {
      const double away = static_cast<double>(i - j) / scheme.reach;
      made.cost.push_back(static_cast<T>(away * away));
    }
  }
  return made;
}

template <class T>
AttentionInputs<T> HeadAttention::inputs_of(const AttentionExtents& extents,
                                            const OwnedMatrix<T>& q, const OwnedMatrix<T>& k,
                                            const OwnedMatrix<T>& v, const Sequences& queries,
                                            const Sequences& keys, const Terms<T>& terms) {
  AttentionInputs<T> in;
  in.q = {q.data(), {extents.sequences, extents.heads, extents.queries, extents.depth}};
  in.k = {k.data(), {extents.sequences, extents.heads, extents.keys, extents.depth}};
  in.v = {v.data(), in.k.shape};
  if (extents.padded_queries) in.query_length = {queries.lengths, {extents.sequences}};
  if (extents.padded_keys) in.key_length = {keys.lengths, {extents.sequences}};
  if (!terms.shares.empty()) {
    in.hybrid = {terms.shares.data(),
                 extents.scheme.share_by_head ? Shape{extents.heads} : Shape{}};
  }
  if (extents.scheme.has_preference()) in.preference = {terms.preference.data(), {1, extents.keys}};
  if (extents.scheme.is_transport()) in.cost = {terms.cost.data(), {extents.keys, extents.keys}};
  return in;
}

HeadAttention::HeadAttention(Parameters& parameters, const std::string& prefix,
                             const HeadAttentionOptions& options, std::uint32_t place)
    : options_(options), dropout_place_(place) {
  if (options.scheme.has_preference()) {
    rho_ = parameters.add_vector(prefix + "log_preference", options.positions, 0);
  }
  if (!has_shares()) return;
  const double rho = std::log(options.first_share / (1 - options.first_share));
  rho_ = parameters.add_vector(prefix + "rho", rho_count(), rho);
}

AttentionExtents HeadAttention::extents(const Sequences& queries, const Sequences& keys) const {
  return {.scheme = options_.scheme,
          .causal = options_.causal,
          .sequences = queries.count,
          .heads = options_.heads,
          .queries = queries.length,
          .keys = keys.length,
          .depth = options_.depth,
          .padded_queries = queries.lengths != nullptr,
          .padded_keys = keys.lengths != nullptr,
          .in_paths = options_.in_paths};
}

template <class T>
std::vector<double> HeadAttention::shares(const T* weights) const {
  if (!has_shares()) return {};
  std::vector<double> shares;
  for (Index h = 0; h < rho_count(); ++h) {
    shares.push_back(logistic(static_cast<double>(weights[rho_ + h])));
  }
  return shares;
}

template <class T>
void HeadAttention::forward(const Slot<T>& slot, const Sequences& queries, const Sequences& keys,
                            Kept<T>& kept) const {
  const AttentionExtents made_for = extents(queries, keys);
  const Terms<T> terms = this->terms(slot.weights, keys.length);
  const Index heads = options_.heads;
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  AttentionOutputs<T> outputs;
  kept.out = OwnedMatrix<T>(queries.rows() * heads, options_.depth);
  outputs.out = {kept.out.data(), plan.out_shape()};
  kept.row_potential = OwnedMatrix<double>(queries.rows() * heads, 1);
  outputs.row_potential = {kept.row_potential.data(), plan.query_shape()};
  kept.col_potential = OwnedMatrix<double>(keys.rows() * heads, 1);
  outputs.col_potential = {kept.col_potential.data(), plan.key_shape()};
  if (has_shares()) {
    kept.unas_row_potential = OwnedMatrix<double>(queries.rows() * heads, 1);
    outputs.unas_row_potential = {kept.unas_row_potential.data(), plan.query_shape()};
  }
  if (!options_.scheme.em) slot.dropout.apply_to_weights(plan, dropout_place_);
  plan.run(inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, terms), outputs);
}

template <class T>
HeadAttention::Gradients<T> HeadAttention::backward(const Slot<T>& slot, const Sequences& queries,
                                                    const Sequences& keys, const Kept<T>& kept,
                                                    const OwnedMatrix<T>& grad_out,
                                                    bool adds) const {
  const AttentionExtents made_for = extents(queries, keys);
  const Terms<T> terms = this->terms(slot.weights, keys.length);
  const std::vector<double>& shares = terms.shares;
  const AttentionInputs<T> in = inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, terms);
  Gradients<T> found;
  found.q = OwnedMatrix<T>(kept.q.rows(), kept.q.cols());
  found.k = OwnedMatrix<T>(kept.k.rows(), kept.k.cols());
  AttentionGradients<T> gradients;
  gradients.q = {found.q.data(), in.q.shape};
  gradients.k = {found.k.data(), in.k.shape};
  if (!options_.constant_values) {
    found.v = OwnedMatrix<T>(kept.v.rows(), kept.v.cols());
    gradients.v = {found.v.data(), in.v.shape};
  }
  std::vector<T> dshares(shares.size());
  if (!shares.empty()) gradients.hybrid = {dshares.data(), in.hybrid.shape};
  std::vector<T> dpreference(terms.preference.size());
  if (!dpreference.empty()) gradients.preference = {dpreference.data(), in.preference.shape};
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  if (!options_.scheme.em) slot.dropout.apply_to_weights(plan, dropout_place_);
  const TensorView<const T> upstream(grad_out.data(), plan.out_shape());
  if (options_.scheme.em || options_.scheme.scheme == Scheme::sinkhorn) {
    plan.gradients(in, upstream, gradients);
  } else {
    plan.gradients_from(in, results_of(kept, plan, !shares.empty()), upstream, gradients);
  }
  for (std::size_t h = 0; h < shares.size(); ++h) {
    T& drho = slot.gradients[rho_ + static_cast<Index>(h)];
    const T more = dshares[h] * static_cast<T>(shares[h] * (1 - shares[h]));
    drho = adds ? drho + more : more;
  }
  for (Index j = 0; options_.scheme.has_preference() && j < options_.positions; ++j) {
    const auto at = static_cast<std::size_t>(j);
    T& drho = slot.gradients[rho_ + j];
    const T more = j < keys.length ? terms.preference[at] * dpreference[at] : T{0};
    drho = adds ? drho + more : more;
  }
  return found;
}

template <class T>
OwnedMatrix<double> HeadAttention::column_sums(const Slot<T>& slot, const Sequences& queries,
                                               const Sequences& keys, const Kept<T>& kept) const {
  OwnedMatrix<double> sums = OwnedMatrix<double>::zeros(keys.rows() * options_.heads, 1);
  const AttentionExtents made_for = extents(queries, keys);
  const Terms<T> terms = this->terms(slot.weights, keys.length);
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  AttentionOutputs<T> outputs;
  outputs.col_sum = {sums.data(), plan.key_shape()};
  plan.run(inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, terms), outputs);
  return sums;
}

template <class T>
OwnedMatrix<T> HeadAttention::weights(const Slot<T>& slot, const Sequences& queries,
                                      const Sequences& keys, const Kept<T>& kept) const {
  OwnedMatrix<T> found(queries.count, options_.heads * queries.length * keys.length);
  const AttentionExtents made_for = extents(queries, keys);
  const Terms<T> terms = this->terms(slot.weights, keys.length);
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  AttentionOutputs<T> outputs;
  outputs.weights = {found.data(), {queries.count, options_.heads, queries.length, keys.length}};
  plan.run(inputs_of(made_for, kept.q, kept.k, kept.v, queries, keys, terms), outputs);
  return found;
}

template <class T>
OwnedMatrix<T> HeadAttention::attend(const Slot<T>& slot, const Sequences& queries,
                                     const Sequences& keys, const OwnedMatrix<T>& q,
                                     const OwnedMatrix<T>& k, const OwnedMatrix<T>& v) const {
  if (options_.scheme.em || options_.scheme.scheme != Scheme::unas) {
    throw Error(Failure::usage, "only under unas can queries attend one after the other");
  }
  AttentionExtents made_for = extents(queries, keys);
  made_for.causal = false;  // there are no later keys yet
  AttentionPlan<T>& plan = slot.plans->plan(made_for);
  slot.dropout.apply_to_weights(plan, dropout_place_);
  OwnedMatrix<T> out(q.rows(), q.cols());
  AttentionOutputs<T> outputs;
  outputs.out = {out.data(), plan.out_shape()};
  plan.run(inputs_of(made_for, q, k, v, queries, keys, terms(slot.weights, keys.length)), outputs);
  return out;
}

template <class T>
PassBytes HeadAttention::bytes(const Sequences& queries, const Sequences& keys) const {
  const Index query_rows = queries.rows() * options_.heads;
  const Index key_rows = keys.rows() * options_.heads;
  const std::int64_t of_queries = row_bytes<T>(query_rows, options_.depth);
  const std::int64_t of_keys = row_bytes<T>(key_rows, options_.depth);
  const bool mixture = options_.scheme.scheme == Scheme::hnas;
  const std::int64_t potentials =
      (mixture ? 2 : 1) * row_bytes<double>(query_rows, 1) + row_bytes<double>(key_rows, 1);
  std::int64_t terms = 0;
  if (options_.scheme.has_preference()) terms += 2 * row_bytes<T>(keys.length, 1);
  if (options_.scheme.is_transport()) terms += row_bytes<T>(keys.length, keys.length);
  return {2 * (of_queries + of_keys) + potentials, row_bytes<double>(key_rows, 1) + terms,
          of_queries + (options_.constant_values ? 1 : 2) * of_keys + terms};
}

#define ATTN_HEAD_ATTENTION(T)                                                                     \
  template void HeadAttention::forward(const Slot<T>&, const Sequences&, const Sequences&,         \
                                       Kept<T>&) const;                                            \
  template HeadAttention::Gradients<T> HeadAttention::backward(const Slot<T>&, const Sequences&,   \
                                                               const Sequences&, const Kept<T>&,   \
                                                               const OwnedMatrix<T>&, bool) const; \
  template OwnedMatrix<double> HeadAttention::column_sums(const Slot<T>&, const Sequences&,        \
                                                          const Sequences&, const Kept<T>&) const; \
  template OwnedMatrix<T> HeadAttention::weights(const Slot<T>&, const Sequences&,                 \
                                                 const Sequences&, const Kept<T>&) const;          \
  template OwnedMatrix<T> HeadAttention::attend(                                                   \
      const Slot<T>&, const Sequences&, const Sequences&, const OwnedMatrix<T>&,                   \
      const OwnedMatrix<T>&, const OwnedMatrix<T>&) const;                                         \
  template std::vector<double> HeadAttention::shares(const T*) const;                              \
  template PassBytes HeadAttention::bytes<T>(const Sequences&, const Sequences&) const;
ATTN_HEAD_ATTENTION(float)
ATTN_HEAD_ATTENTION(double)
#undef ATTN_HEAD_ATTENTION

}  // namespace attn::train
