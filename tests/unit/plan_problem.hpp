#pragma once

// Batched problems with grouped heads, for a plan as a whole and for each head separately.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "attnkit/attention.hpp"
#include "pass/output.hpp"
#include "random_problem.hpp"
#include "score/energy.hpp"
#include "stats/observers.hpp"
#include "weights_observer.hpp"

namespace attn::testing {

inline AttentionOptions attention_options(Scheme scheme, Index iterations = 3) {
  AttentionOptions options;
  options.scheme = scheme;
  if (scheme == Scheme::hnas) options.hybrid = 0.3;
  if (scheme == Scheme::sinkhorn) options.stopping.iterations = iterations;
  return options;
}

struct BatchSizes {
  Index batches = 2;
  Index query_heads = 4;
  Index key_heads = 2;
  Index queries = 5;
  Index keys = 7;
  Index depth = 3;
  Index v_head_dim = 2;

  Index problems() const { return batches * query_heads; }
  Shape leading() const { return {batches, query_heads}; }
};

template <class T>
std::vector<T> random_numbers(Index count, Random& random, double spread = 1) {
  std::normal_distribution<double> normal(0, spread);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

/// q (B, Hq, Lq, d), k and v (B, Hk, Lk, …) and, if requested, a mask (B, 1, 1, Lk) and a bias (Hq,
/// Lq, Lk).
template <class T>
struct Batch {
  BatchSizes sizes;
  std::vector<T> q, k, v, bias, grad_out;
  std::vector<std::uint8_t> mask;

  Batch(const BatchSizes& given, Random& random, bool with_terms)
      : sizes(given),
        q(random_numbers<T>(given.problems() * given.queries * given.depth, random)),
        k(random_numbers<T>(given.batches * given.key_heads * given.keys * given.depth, random)),
        v(random_numbers<T>(given.batches * given.key_heads * given.keys * given.v_head_dim,
                            random)),
        grad_out(random_numbers<T>(given.problems() * given.queries * given.v_head_dim, random)) {
    if (!with_terms) return;
    bias = random_numbers<T>(given.query_heads * given.queries * given.keys, random);
    for (T& b : bias) {
      if (chance(random, 0.1)) b = -std::numeric_limits<T>::infinity();
    }
    for (Index n = 0; n < given.batches * given.keys; ++n) {
      mask.push_back(chance(random, 0.8) ? 1 : 0);
    }
  }

  AttentionInputs<T> inputs() const {
    const BatchSizes& s = sizes;
    AttentionInputs<T> in;
    in.q = {q.data(), {s.batches, s.query_heads, s.queries, s.depth}};
    in.k = {k.data(), {s.batches, s.key_heads, s.keys, s.depth}};
    in.v = {v.data(), {s.batches, s.key_heads, s.keys, s.v_head_dim}};
    if (!bias.empty()) in.bias = {bias.data(), {s.query_heads, s.queries, s.keys}};
    if (!mask.empty()) in.mask = {mask.data(), {s.batches, 1, 1, s.keys}};
    return in;
  }

  TensorView<const T> upstream() const {
    return {grad_out.data(), {sizes.batches, sizes.query_heads, sizes.queries, sizes.v_head_dim}};
  }

  Index batch_of(Index problem) const { return problem / sizes.query_heads; }
  Index head_of(Index problem) const { return problem % sizes.query_heads; }
  Index key_block(Index problem) const {
    const Index group = sizes.query_heads / sizes.key_heads;
    return batch_of(problem) * sizes.key_heads + head_of(problem) / group;
  }

  MatrixView<const T> q_of(Index problem) const {
    return {q.data() + problem * sizes.queries * sizes.depth, sizes.queries, sizes.depth};
  }
  MatrixView<const T> k_of(Index problem) const {
    return {k.data() + key_block(problem) * sizes.keys * sizes.depth, sizes.keys, sizes.depth};
  }
  MatrixView<const T> v_of(Index problem) const {
    return {v.data() + key_block(problem) * sizes.keys * sizes.v_head_dim, sizes.keys,
            sizes.v_head_dim};
  }
  MatrixView<const T> grad_out_of(Index problem) const {
    return {grad_out.data() + problem * sizes.queries * sizes.v_head_dim, sizes.queries,
            sizes.v_head_dim};
  }
};

/// One head, computed by the parts of the library without a plan.
template <class T>
struct SingleHead {
  std::optional<BroadcastMatrix<T>> bias;
  std::optional<BroadcastMatrix<std::uint8_t>> mask;
  std::unique_ptr<Energy<T>> energy;
  std::optional<Scores<T>> scores;
  std::vector<T> out;
  std::vector<double> col_sum, row_entropy;
  std::vector<T> weights;
  Attention attention;

  SingleHead(const Batch<T>& batch, Index problem, EnergyKind kind, double scale, Causal causal,
             const SchemeOptions& options, bool out_only = false) {
    const BatchSizes& s = batch.sizes;
    energy = make_product_energy<T>(kind, batch.q_of(problem), batch.k_of(problem), scale);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    terms.band = causal_band(causal, s.queries, s.keys);
    if (!batch.bias.empty()) {
      const Index size = s.queries * s.keys;
      const T* first = batch.bias.data() + batch.head_of(problem) * size;
      double largest = 0;
      for (Index n = 0; n < size; ++n) {
        if (std::isfinite(first[n])) {
          largest = std::max(largest, std::abs(static_cast<double>(first[n])));
        }
      }
      bias.emplace(first, s.keys, 1, largest);
      terms.bias = &*bias;
    }
    if (!batch.mask.empty()) {
      mask.emplace(batch.mask.data() + batch.batch_of(problem) * s.keys, 0, 1, 1);
      terms.mask = &*mask;
    }
    scores.emplace(terms);
    out.resize(static_cast<std::size_t>(s.queries * s.v_head_dim));
    Output<T> output(batch.v_of(problem), {out.data(), s.queries, s.v_head_dim});
    ColumnSums<T> sums;
    RowEntropy<T> entropy;
    KeepWeights<T> kept;
    std::vector<Observer<T>*> observers{&output};
    if (!out_only) observers.insert(observers.end(), {&sums, &entropy, &kept});
    attention = attend<T>(*scores, options, observers, 1);
    col_sum = sums.values();
    row_entropy = entropy.values();
    weights = kept.values;
  }
};

/// Room for all outputs of a batch.
template <class T>
struct Results {
  std::vector<T> out, weights;
  std::vector<double> row, col, unas_row, col_sum, row_entropy;
  AttentionOutputs<T> views;

  Results(const BatchSizes& s, bool hnas) {
    const auto room = [&](auto& values, const Shape& own) {
      using Value = typename std::decay_t<decltype(values)>::value_type;
      Shape shape = s.leading();
      shape.insert(shape.end(), own.begin(), own.end());
      Index count = 1;
      for (const Index length : shape) count *= length;
      // One element more, so that empty results have data, too.
      values.assign(static_cast<std::size_t>(count + 1), Value{-7});
      return TensorView<Value>(values.data(), shape);
    };
    views.out = room(out, {s.queries, s.v_head_dim});
    views.weights = room(weights, {s.queries, s.keys});
    views.row_potential = room(row, {s.queries});
    views.col_potential = room(col, {s.keys});
    if (hnas) views.unas_row_potential = room(unas_row, {s.queries});
    views.col_sum = room(col_sum, {s.keys});
    views.row_entropy = room(row_entropy, {s.queries});
  }
};

/// Whether block `n` of `all` is `one`, to the last bit (NaN differs).
template <class T, class One>
bool is_block(const std::vector<T>& all, Index n, const One& one) {
  const auto size = static_cast<Index>(one.size());
  return std::equal(one.begin(), one.end(), all.begin() + n * size);
}

}  // namespace attn::testing
