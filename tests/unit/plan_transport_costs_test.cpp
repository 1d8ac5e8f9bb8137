// Plans of the scheme transport, whose costs belong to pairs of keys.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plan_problem.hpp"
#include "same_bits.hpp"

using namespace attn;
using namespace attn::testing;

// q, k and v (B, H, L, d), a cost per head, a preference per sequence; sequences may be padded.
TEST_CASE_TEMPLATE("transport of a padded batch is that of its sequences", T, float, double) {
  Random random(908);
  constexpr Index batches = 3, heads = 2, length = 21, depth = 4;
  const std::vector<Index> lengths{21, 1, 13}, starts{0, 20, 5};
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> q = random_numbers<T>(batches * heads * length * depth, random);
  std::vector<T> k = random_numbers<T>(batches * heads * length * depth, random);
  const std::vector<T> v = random_numbers<T>(batches * heads * length * depth, random);
  const std::vector<T> grad_out = random_numbers<T>(batches * heads * length * depth, random);
  std::vector<T> cost = random_numbers<T>(heads * length * length, random);
  std::vector<T> preference = random_numbers<T>(batches * length, random);
  for (auto* values : {&cost, &preference}) {
    for (T& x : *values) x = std::abs(x);
  }
  const auto is_padding = [&](Index b, Index i) {
    const auto at = static_cast<std::size_t>(b);
    return i < starts[at] || i >= starts[at] + lengths[at];
  };
  for (Index b = 0; b < batches; ++b) {
    for (Index i = 0; i < length; ++i) {
      for (Index h = 0; h < heads && is_padding(b, i); ++h) {
        std::fill_n(q.begin() + ((b * heads + h) * length + i) * depth, depth, nan);
        std::fill_n(k.begin() + ((b * heads + h) * length + i) * depth, depth, nan);
      }
    }
  }
  AttentionOptions options;
  options.scheme = Scheme::transport;
  options.gamma = 0.7;
  options.causal = Causal::top_left;
  AttentionInputs<T> in;
  const Shape vectors = {batches, heads, length, depth};
  in.q = {q.data(), vectors};
  in.k = {k.data(), vectors};
  in.v = {v.data(), vectors};
  in.cost = {cost.data(), {heads, length, length}};
  in.preference = {preference.data(), {batches, 1, 1, length}};
  in.query_length = in.key_length = {lengths.data(), {batches}};
  in.query_start = in.key_start = {starts.data(), {batches}};
  struct All {
    std::vector<T> out, q, k, v, preference, cost;
    void run(const AttentionInputs<T>& in, const AttentionOptions& options,
             const std::vector<T>& grad_out) {
      AttentionPlan<T> plan(shapes_of(in), options, 2);
      const auto room = [](std::vector<T>& to, const Shape& shape) {
        to.resize(static_cast<std::size_t>(element_count(shape)));
        return TensorView<T>{to.data(), shape};
      };
      AttentionGradients<T> wanted;
      wanted.q = room(q, in.q.shape);
      wanted.k = room(k, in.k.shape);
      wanted.v = room(v, in.v.shape);
      wanted.preference = room(preference, in.preference.shape);
      wanted.cost = room(cost, in.cost.shape);
      plan.gradients(in, {grad_out.data(), plan.out_shape()}, wanted,
                     {.out = room(out, plan.out_shape())});
    }
  };
  All all;
  all.run(in, options, grad_out);
  std::vector<double> cost_sum(cost.size(), 0.0);
  for (Index b = 0; b < batches; ++b) {
    const Index first = starts[static_cast<std::size_t>(b)];
    const Index count = lengths[static_cast<std::size_t>(b)];
    const auto cut = [&](const std::vector<T>& from) {
      std::vector<T> part;
      for (Index h = 0; h < heads; ++h) {
        const auto begin = from.begin() + ((b * heads + h) * length + first) * depth;
        part.insert(part.end(), begin, begin + count * depth);
      }
      return part;
    };
    const std::vector<T> own_q = cut(q), own_k = cut(k), own_v = cut(v);
    std::vector<T> own_cost, own_preference;
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < count; ++t) {
        const auto begin = cost.begin() + (h * length + first + t) * length + first;
        own_cost.insert(own_cost.end(), begin, begin + count);
      }
    }
    const auto begin = preference.begin() + b * length + first;
    own_preference.assign(begin, begin + count);
    AttentionInputs<T> own;
    own.q = {own_q.data(), {heads, count, depth}};
    own.k = {own_k.data(), {heads, count, depth}};
    own.v = {own_v.data(), {heads, count, depth}};
    own.cost = {own_cost.data(), {heads, count, count}};
    own.preference = {own_preference.data(), {count}};
    All alone;
    alone.run(own, options, cut(grad_out));
    CHECK(same_bits(cut(all.out), alone.out));
    CHECK(same_bits(cut(all.q), alone.q));
    CHECK(same_bits(cut(all.k), alone.k));
    CHECK(same_bits(cut(all.v), alone.v));
    const auto of_preference = all.preference.begin() + b * length;
    CHECK(same_bits(std::vector<T>(of_preference + first, of_preference + first + count),
                    alone.preference));
    for (Index i = 0; i < length; ++i) {
      if (is_padding(b, i)) CHECK(of_preference[i] == 0);
    }
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < count; ++t) {
        for (Index i = 0; i < count; ++i) {
          cost_sum[static_cast<std::size_t>((h * length + first + t) * length + first + i)] +=
              alone.cost[static_cast<std::size_t>((h * count + t) * count + i)];
        }
      }
    }
  }
  CHECK(relative_error(all.cost, cost_sum) <= (sizeof(T) == 4 ? 1e-6 : 1e-14));
}
