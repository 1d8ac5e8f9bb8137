// A padded batch gives each sequence's own results, to the last bit.

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "plan_problem.hpp"
#include "same_bits.hpp"
#include "tensor/infinity.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Rows [first, first + count) of each of `blocks` blocks of `rows` rows.
template <class T>
std::vector<T> cut_rows(const std::vector<T>& all, Index blocks, Index rows, Index first,
                        Index count) {
  const Index width = static_cast<Index>(all.size()) / (blocks * rows);
  std::vector<T> cut;
  for (Index block = 0; block < blocks; ++block) {
    const auto from = all.begin() + (block * rows + first) * width;
    cut.insert(cut.end(), from, from + count * width);
  }
  return cut;
}

// Projections of x (B, L, D) for two heads, and all results of them.
template <class T>
struct Projected {
  static constexpr Index heads = 2, width = 5, depth = 3, value_depth = 4;

  Index batches, length;
  std::vector<T> x, wq, wk, wv, grad_out;
  std::vector<T> out, weights, grad_x, grad_wq, grad_wv;
  std::vector<double> col_sum, col_potential;

  AttentionSummary run(const AttentionOptions& options, const std::vector<Index>* lengths,
                       const std::vector<Index>* starts) {
    AttentionInputs<T> in;
    in.x = {x.data(), {batches, length, width}};
    in.wq = {wq.data(), {heads, width, depth}};
    in.wk = {wk.data(), {heads, width, depth}};
    in.wv = {wv.data(), {heads, width, value_depth}};
    if (lengths != nullptr) {
      in.query_length = in.key_length = {lengths->data(), {batches}};
      in.query_start = in.key_start = {starts->data(), {batches}};
    }
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    const auto room = [&](auto& values, Index size) {
      values.resize(static_cast<std::size_t>(size));
    };
    room(out, batches * heads * length * value_depth);
    room(weights, batches * heads * length * length);
    room(col_sum, batches * heads * length);
    room(col_potential, batches * heads * length);
    room(grad_x, batches * length * width);
    room(grad_wq, heads * width * depth);
    room(grad_wv, heads * width * value_depth);
    AttentionOutputs<T> outputs;
    outputs.out = {out.data(), plan.out_shape()};
    outputs.weights = {weights.data(), {batches, heads, length, length}};
    outputs.col_sum = {col_sum.data(), plan.key_shape()};
    outputs.col_potential = {col_potential.data(), plan.key_shape()};
    AttentionGradients<T> gradients;
    gradients.x = {grad_x.data(), {batches, length, width}};
    gradients.wq = {grad_wq.data(), {heads, width, depth}};
    gradients.wv = {grad_wv.data(), {heads, width, value_depth}};
    return plan.gradients(in, {grad_out.data(), plan.out_shape()}, gradients, outputs);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("projections of a padded batch are those of its sequences", T, float, double) {
  Random random(401);
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  const Index length = 70;
  const std::vector<Index> lengths{70, 1, 0, 33};
  const std::vector<Index> starts{0, 69, 5, 20};
  const auto batches = static_cast<Index>(lengths.size());
  for (const Scheme scheme : all_schemes) {
    CAPTURE(static_cast<int>(scheme));
    AttentionOptions options = attention_options(scheme);
    options.causal = scheme == Scheme::unas ? Causal::bottom_right : Causal::none;
    using Layer = Projected<T>;
    Layer all{batches,
              length,
              {},
              random_numbers<T>(Layer::heads * Layer::width * Layer::depth, random),
              random_numbers<T>(Layer::heads * Layer::width * Layer::depth, random),
              random_numbers<T>(Layer::heads * Layer::width * Layer::value_depth, random),
              {},
              {},
              {},
              {},
              {},
              {},
              {},
              {}};
    all.x = random_numbers<T>(batches * length * Layer::width, random);
    all.grad_out = random_numbers<T>(batches * Layer::heads * length * Layer::value_depth, random);
    for (Index b = 0; b < batches; ++b) {
      const auto at = static_cast<std::size_t>(b);
      for (Index i = 0; i < length; ++i) {
        if (i >= starts[at] && i < starts[at] + lengths[at]) continue;
        std::fill_n(all.x.begin() + (b * length + i) * Layer::width, Layer::width, nan);
        for (Index h = 0; h < Layer::heads; ++h) {
          std::fill_n(
              all.grad_out.begin() + ((b * Layer::heads + h) * length + i) * Layer::value_depth,
              Layer::value_depth, nan);
        }
      }
    }
    const AttentionSummary summary = all.run(options, &lengths, &starts);
    CHECK(summary.padded_queries() == Layer::heads * (4 * 70 - 104));
    CHECK(summary.padded_keys() == summary.padded_queries());
    std::vector<double> wq_sum(all.grad_wq.size()), wv_sum(all.grad_wv.size());
    for (Index b = 0; b < batches; ++b) {
      CAPTURE(b);
      const Index first = starts[static_cast<std::size_t>(b)];
      const Index count = lengths[static_cast<std::size_t>(b)];
      // What belongs to this sequence, from arrays by (B·blocks, L, ...).
      const auto own = [&](const auto& values, Index blocks) {
        const auto size = static_cast<std::ptrdiff_t>(values.size()) / batches;
        const std::vector part(values.begin() + b * size, values.begin() + (b + 1) * size);
        return cut_rows(part, blocks, length, first, count);
      };
      const auto padding_is = [&](const auto& values, Index blocks, auto number) {
        const auto size = static_cast<std::ptrdiff_t>(values.size()) / batches;
        const auto inside = own(values, blocks);
        const auto equal =
            std::count(values.begin() + b * size, values.begin() + (b + 1) * size, number);
        return equal - std::count(inside.begin(), inside.end(), number) ==
               size - static_cast<std::ptrdiff_t>(inside.size());
      };
      CHECK(padding_is(all.out, Layer::heads, T{0}));
      CHECK(padding_is(all.weights, Layer::heads, T{0}));
      CHECK(padding_is(all.grad_x, 1, T{0}));
      CHECK(padding_is(all.col_sum, Layer::heads, 0.0));
      CHECK(padding_is(all.col_potential, Layer::heads, minus_infinity));
      if (count == 0) continue;
      Layer alone{1,
                  count,
                  own(all.x, 1),
                  all.wq,
                  all.wk,
                  all.wv,
                  own(all.grad_out, Layer::heads),
                  {},
                  {},
                  {},
                  {},
                  {},
                  {},
                  {}};
      alone.run(options, nullptr, nullptr);
      CHECK(same_bits(own(all.out, Layer::heads), alone.out));
      CHECK(same_bits(own(all.col_sum, Layer::heads), alone.col_sum));
      CHECK(same_bits(own(all.col_potential, Layer::heads), alone.col_potential));
      CHECK(same_bits(own(all.grad_x, 1), alone.grad_x));
      // Weights: own columns of own rows.
      const auto rows = own(all.weights, Layer::heads);
      CHECK(same_bits(cut_rows(rows, Layer::heads * count, length, first, count), alone.weights));
      for (std::size_t n = 0; n < wq_sum.size(); ++n)
        wq_sum[n] += static_cast<double>(alone.grad_wq[n]);
      for (std::size_t n = 0; n < wv_sum.size(); ++n)
        wv_sum[n] += static_cast<double>(alone.grad_wv[n]);
    }
    const double bound = 8 * std::numeric_limits<T>::epsilon();
    CHECK(relative_error(all.grad_wq, wq_sum) <= bound);
    CHECK(relative_error(all.grad_wv, wv_sum) <= bound);
  }
}

TEST_CASE("numbers outside of every sequence are not looked at, all others are") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> q(2 * 5 * 2, 1), k(3 * 2, 1);
  const std::vector<Index> lengths{2, 4};
  AttentionInputs<float> in;
  in.q = {q.data(), {2, 1, 5, 2}};
  in.k = {k.data(), {1, 3, 2}};
  in.query_length = {lengths.data(), {2}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  std::vector<double> sums(2 * 3);
  AttentionOutputs<float> outputs;
  outputs.col_sum = {sums.data(), plan.key_shape()};
  q[2 * 2] = q[(5 + 4) * 2] = nan;
  plan.run(in, outputs);
  const auto three_times = [](std::vector<double> values) {
    for (double& value : values) value *= 3;
    return values;
  };
  CHECK(relative_error(three_times(sums), std::vector<double>{2, 2, 2, 4, 4, 4}) <= 1e-6);
  q[(5 + 3) * 2 + 1] = nan;
  CHECK(contains(thrown_error([&] { plan.run(in, outputs); }).what(), "q has nan at [1, 0, 3, 1]"));
}

TEST_CASE_TEMPLATE("numbers that nothing sees are not looked at", T, float, double) {
  Random random(402);
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const Index length = 9, depth = 3;
  std::vector<Index> starts_q{0, 4, 6, 9}, starts_k{0, 3, 3, 8};
  std::vector<T> q = random_numbers<T>(2 * length * depth, random);
  std::vector<T> k = random_numbers<T>(length * depth, random);
  AttentionInputs<T> in;
  in.q = {q.data(), {2, length, depth}};
  in.k = in.v = {k.data(), {1, length, depth}};
  in.cu_seqlens_q = {starts_q.data(), {4}};
  in.cu_seqlens_k = {starts_k.data(), {4}};
  AttentionOptions options;
  options.causal = Causal::bottom_right;
  // Every result, with `number` in the rows [first, last) of q or k, which stay as they are.
  const auto results = [&](std::vector<T>& array, Index first, Index last, T number,
                           AttentionPlan<T>& plan) {
    const std::vector<T> before = array;
    const auto heads = static_cast<Index>(array.size()) / (length * depth);
    for (Index h = 0; h < heads; ++h) {
      std::fill_n(array.begin() + (h * length + first) * depth, (last - first) * depth, number);
    }
    const std::vector<T> given = array;
    std::vector<T> all(4 * 2 * length * depth);
    const Index part = 2 * length * depth;
    AttentionOutputs<T> outputs;
    outputs.out = {all.data(), plan.out_shape()};
    AttentionGradients<T> gradients;
    gradients.q = {all.data() + part, {2, length, depth}};
    gradients.k = {all.data() + 2 * part, {1, length, depth}};
    gradients.v = {all.data() + 3 * part, {1, length, depth}};
    const std::vector<T> grad_out(static_cast<std::size_t>(part), T{1});
    try {
      plan.gradients(in, {grad_out.data(), plan.out_shape()}, gradients, outputs);
    } catch (...) {
      array = before;
      throw;
    }
    CHECK(same_bits(array, given));
    array = before;
    return all;
  };
  AttentionPlan<T> plan(shapes_of(in), options, 2);
  for (const T number : {nan, infinity}) {
    // Bottom-right, the first of 4 queries is before all of 3 keys; queries 4 and 5 have no keys.
    CHECK(same_bits(results(q, 0, 1, number, plan), results(q, 0, 1, 0, plan)));
    CHECK(same_bits(results(q, 4, 6, number, plan), results(q, 4, 6, 0, plan)));
    CHECK(same_bits(results(k, 8, 9, number, plan), results(k, 8, 9, 0, plan)));
    CHECK(thrown_error([&] { results(q, 3, 4, number, plan); }).failure() == Failure::input);
  }
  // The same plan with other sequences: what one does not see, the other does.
  const std::vector<Index> other_q{0, 4, 4, 9}, other_k{0, 3, 5, 9};
  starts_q = other_q;
  starts_k = other_k;
  CHECK(thrown_error([&] { results(q, 4, 6, nan, plan); }).failure() == Failure::input);
  CHECK(same_bits(results(k, 3, 5, nan, plan), results(k, 3, 5, 0, plan)));
  AttentionPlan<T> fresh(shapes_of(in), options, 1);
  CHECK(same_bits(results(q, 0, 0, 0, plan), results(q, 0, 0, 0, fresh)));
  // Not even in the mean of all points.
  for (const char* energy : {"gaussian", "euclidean", "l1"}) {
    options.energy = energy;
    AttentionPlan<T> of_points(shapes_of(in), options, 2);
    for (const T number : {nan, T{1e4}, T{1e30}}) {
      CHECK(same_bits(results(k, 3, 5, number, of_points), results(k, 3, 5, 0, of_points)));
    }
  }
}

TEST_CASE("bounds and offsets out of range are refused") {
  std::vector<float> q(8, 1);
  std::vector<Index> start{3}, length{2}, offset{1};
  AttentionInputs<float> in;
  in.q = in.k = {q.data(), {1, 4, 2}};
  in.key_start = {start.data(), {1}};
  in.key_length = {length.data(), {1}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  CHECK(
      contains(thrown_error([&] { plan.run(in, {}); }).what(), "key_start is 3 and key_length 2"));
  start[0] = 2;
  plan.run(in, {});
  length[0] = 5;
  CHECK(contains(thrown_error([&] { plan.run(in, {}); }).what(), "key_length has 5 at [0]"));
  in.query_offset = {offset.data(), {1}};
  const auto refused = [&](const AttentionOptions& options) {
    return thrown_error([&] { AttentionPlan<float>(shapes_of(in), options, 1); });
  };
  CHECK(contains(refused({}).what(), "query_offset requires causality"));
  AttentionOptions options;
  options.causal = Causal::bottom_right;
  CHECK(contains(refused(options).what(), "requires top_left"));
}
