// Attention and its gradients, of random inputs.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

#include "bench/work.hpp"
#include "gradient/energy_gradient.hpp"
#include "parallel/busy_threads.hpp"
#include "parallel/parallel_for.hpp"
#include "pass/output.hpp"
#include "pass/partition.hpp"
#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "stats/observers.hpp"

namespace bench {
namespace {

using namespace attn;

struct Case {
  SchemeOptions scheme;
  Index heads = 1, queries = 1, keys = 1, depth = 1, v_head_dim = 1;
  bool f64 = false, bf16 = false, causal = false, column_sums = false, entropies = false,
       backward = false;
  double spread = 1;
};

Case parse(const std::string& text) {
  Case c;
  const auto words = split(text, ':');
  const auto shape = words.size() > 1 ? split(words[1], 'x') : std::vector<std::string>{};
  if (shape.size() != 3) refuse(text + ": expected SCHEME:HxLxD");
  c.heads = std::stol(shape[0]);
  c.queries = c.keys = std::stol(shape[1]);
  c.depth = c.v_head_dim = std::stol(shape[2]);
  const std::vector<std::pair<std::string, Scheme>> schemes = {{"unas", Scheme::unas},
                                                               {"dnas", Scheme::dnas},
                                                               {"hnas", Scheme::hnas},
                                                               {"sinkhorn", Scheme::sinkhorn}};
  const auto scheme = std::find_if(schemes.begin(), schemes.end(),
                                   [&](const auto& entry) { return entry.first == words[0]; });
  if (scheme == schemes.end()) refuse(text + ": no scheme is called " + words[0]);
  c.scheme.scheme = scheme->second;
  for (std::size_t n = 2; n < words.size(); ++n) {
    const auto pair = split(words[n], '=');
    const std::string value = pair.size() > 1 ? pair[1] : "";
    if (pair[0] == "f64") {
      c.f64 = true;
    } else if (pair[0] == "bf16") {
      c.bf16 = true;
    } else if (pair[0] == "causal") {
      c.causal = true;
    } else if (pair[0] == "colsum") {
      c.column_sums = true;
    } else if (pair[0] == "entropy") {
      c.entropies = true;
    } else if (pair[0] == "backward") {
      c.backward = true;
    } else if (pair[0] == "rows") {
      c.queries = std::stol(value);
    } else if (pair[0] == "dv") {
      c.v_head_dim = std::stol(value);
    } else if (pair[0] == "spread") {
      c.spread = std::stod(value);
    } else if (pair[0] == "memory") {
      c.scheme.kept_bytes = std::stol(value);
    } else if (pair[0] == "iterations") {
      c.scheme.stopping.iterations = std::stol(value);
    } else {
      refuse(text + ": " + words[n]);
    }
  }
  return c;
}

template <class T>
struct Head {
  std::vector<T> q, k, v, out;
  std::vector<T> grad_out, grad_q, grad_k, grad_v;
};

template <class T>
std::vector<T> normal(Index count, double spread, std::mt19937_64& random) {
  std::normal_distribution<double> value(0, spread);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& x : values) x = static_cast<T>(value(random));
  return values;
}

// Cuts float32 numbers to their upper halves.
template <class T>
void to_bf16(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, float>) {
    for (T& x : values) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
  }
}

// scaled-dot, of bfloat16 numbers if the case says so.
template <class T>
std::unique_ptr<Energy<T>> energy_of(const Case& c, MatrixView<const T> q, MatrixView<const T> k) {
  if constexpr (std::is_same_v<T, float>) {
    if (c.bf16) return make_bf16_energy(q, k, 1 / std::sqrt(static_cast<double>(q.cols)));
  }
  return make_product_energy<T>(EnergyKind::scaled_dot, q, k, 1);
}

template <class T>
void compute(const Case& c, Head<T>& head, int threads) {
  const MatrixView<const T> q(head.q.data(), c.queries, c.depth);
  const MatrixView<const T> k(head.k.data(), c.keys, c.depth);
  const auto energy = energy_of<T>(c, q, k);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.band.causal = c.causal;
  const Scores<T> scores(terms);
  Output<T> output({head.v.data(), c.keys, c.v_head_dim},
                   {head.out.data(), c.queries, c.v_head_dim});
  ColumnSums<T> sums;
  RowEntropy<T> entropies;
  std::vector<Observer<T>*> observers = {&output};
  if (c.column_sums) observers.push_back(&sums);
  if (c.entropies) observers.push_back(&entropies);
  const Attention attention = attend(scores, c.scheme, observers, threads);
  if (!c.backward) return;

  const auto gradient = make_product_gradient<T>(EnergyKind::scaled_dot, q, k, 1,
                                                 {head.grad_q.data(), c.queries, c.depth},
                                                 {head.grad_k.data(), c.keys, c.depth});
  Forward<T> forward;
  forward.scores = &scores;
  forward.options = c.scheme;
  forward.attention = &attention;
  forward.v = {head.v.data(), c.keys, c.v_head_dim};
  forward.out = {head.out.data(), c.queries, c.v_head_dim};
  forward.grad_out = {head.grad_out.data(), c.queries, c.v_head_dim};
  GradientTargets<T> targets;
  targets.v = {head.grad_v.data(), c.keys, c.v_head_dim};
  targets.energies = {gradient.get()};
  differentiate(forward, targets, threads);
}

template <class T>
std::vector<Head<T>> inputs(const Case& c) {
  std::mt19937_64 random(1);
  std::vector<Head<T>> heads(static_cast<std::size_t>(c.heads));
  for (Head<T>& head : heads) {
    head.q = normal<T>(c.queries * c.depth, c.spread, random);
    head.k = normal<T>(c.keys * c.depth, c.spread, random);
    if (c.bf16) to_bf16(head.q), to_bf16(head.k);
    head.v = normal<T>(c.keys * c.v_head_dim, 1, random);
    head.out.resize(static_cast<std::size_t>(c.queries * c.v_head_dim));
    if (c.backward) {
      head.grad_out = normal<T>(c.queries * c.v_head_dim, 1, random);
      head.grad_q.resize(head.q.size());
      head.grad_k.resize(head.k.size());
      head.grad_v.resize(head.v.size());
    }
  }
  return heads;
}

template <class T>
Work work_of(const Case& c, int threads) {
  const auto heads = std::make_shared<std::vector<Head<T>>>(inputs<T>(c));
  const bool over_heads = take_items_each(
      c.heads, attend_parts(c.scheme.scheme, c.backward, c.queries, c.keys, sizeof(T)), threads);
  const auto pairs = static_cast<double>(c.heads * c.queries * c.keys);
  const Index of_head = (c.queries + c.keys) * (c.depth + c.v_head_dim);
  Work work;
  work.flops = (c.backward ? 6.0 : 2.0) * pairs * static_cast<double>(c.depth + c.v_head_dim);
  work.bytes = (c.backward ? 2.0 : 1.0) * sizeof(T) * static_cast<double>(c.heads * of_head);
  work.run = [c, heads, over_heads, threads] {
    parallel_for(c.heads, over_heads ? threads : 1, [&](Index h, int) {
      compute(c, (*heads)[static_cast<std::size_t>(h)], over_heads ? 1 : threads);
    });
  };
  return work;
}

}  // namespace

Work attention_work(const std::string& text, int threads) {
  Case c;
  try {
    c = parse(text);
  } catch (const std::logic_error&) {  // of std::stol and std::stod
    refuse(text + ": expected numbers in the shape and after =");
  }
  return c.f64 ? work_of<double>(c, threads) : work_of<float>(c, threads);
}

}  // namespace bench
