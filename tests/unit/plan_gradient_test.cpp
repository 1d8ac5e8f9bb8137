// AttentionPlan: gradients, compared with the parts of the library and with finite differences.

#include <doctest/doctest.h>

#include <functional>

#include "attnkit/attention.hpp"
#include "gradient/energy_gradient.hpp"
#include "plan_problem.hpp"
#include "random_problem.hpp"
#include "scheme/gradient.hpp"
#include "scheme_check.hpp"
#include "score/projection.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct HeadGradientParts {
  std::vector<T> q, k, v;
  double hybrid = 0;

  HeadGradientParts(const Batch<T>& batch, Index problem, Causal causal,
                    const SchemeOptions& options) {
    const SingleHead<T> head(batch, problem, EnergyKind::dot, 1, causal, options, true);
    const BatchSizes& s = batch.sizes;
    q.resize(static_cast<std::size_t>(s.queries * s.depth));
    k.resize(static_cast<std::size_t>(s.keys * s.depth));
    v.resize(static_cast<std::size_t>(s.keys * s.v_head_dim));
    Forward<T> forward;
    forward.scores = &*head.scores;
    forward.options = options;
    forward.attention = &head.attention;
    forward.v = batch.v_of(problem);
    forward.out = {head.out.data(), s.queries, s.v_head_dim};
    forward.grad_out = batch.grad_out_of(problem);
    const auto energy = make_product_gradient<T>(
        EnergyKind::dot, batch.q_of(problem), batch.k_of(problem), 1,
        MatrixView<T>(q.data(), s.queries, s.depth), MatrixView<T>(k.data(), s.keys, s.depth));
    GradientTargets<T> targets;
    targets.v = {v.data(), s.keys, s.v_head_dim};
    targets.energies = {energy.get()};
    targets.hybrid = options.scheme == Scheme::hnas;
    hybrid = differentiate(forward, targets, 1).hybrid;
  }
};

// The sum over the heads of a group, in float64 and in their order. For a single head, its numbers.
template <class T>
std::vector<T> summed(const std::vector<std::vector<T>>& parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<double> sum(parts.front().size(), 0.0);
  for (const auto& part : parts) {
    for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += static_cast<double>(part[n]);
  }
  return std::vector<T>(sum.begin(), sum.end());
}

// A loss that depends on named arrays, and a plan's gradients of it.
struct Differentiable {
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, Shape> shapes;
  AttentionOptions options;
  std::vector<double> grad_out;
  std::vector<std::uint8_t> mask;
  Shape mask_shape;

  void add(const std::string& name, const Shape& shape, Random& random, double spread = 1) {
    Index count = 1;
    for (const Index length : shape) count *= length;
    values[name] = random_numbers<double>(count, random, spread);
    shapes[name] = shape;
  }

  AttentionInputs<double> inputs() const {
    AttentionInputs<double> in;
    const std::map<std::string, TensorView<const double>*> fields = {{"q", &in.q},
                                                                     {"k", &in.k},
                                                                     {"v", &in.v},
                                                                     {"x", &in.x},
                                                                     {"y", &in.y},
                                                                     {"wq", &in.wq},
                                                                     {"wk", &in.wk},
                                                                     {"wv", &in.wv},
                                                                     {"bq", &in.bq},
                                                                     {"bk", &in.bk},
                                                                     {"bv", &in.bv},
                                                                     {"bias", &in.bias},
                                                                     {"rel_bias", &in.rel_bias},
                                                                     {"hybrid", &in.hybrid}};
    for (const auto& value : values) {
      const TensorView<const double> view(value.second.data(), shapes.at(value.first));
      const auto field = fields.find(value.first);
      if (field == fields.end()) {
        in.energy[value.first] = view;
      } else {
        *field->second = view;
      }
    }
    if (!mask.empty()) in.mask = {mask.data(), mask_shape};
    return in;
  }

  double loss() const {
    const auto in = inputs();
    AttentionPlan<double> plan(shapes_of(in), options, 1);
    std::vector<double> out(grad_out.size());
    AttentionOutputs<double> outputs;
    outputs.out = {out.data(), plan.out_shape()};
    plan.run(in, outputs);
    double sum = 0;
    for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * grad_out[n];
    return sum;
  }

  void draw_grad_out(Random& random) {
    const AttentionPlan<double> plan(shapes_of(inputs()), options, 1);
    Index count = 1;
    for (const Index length : plan.out_shape()) count *= length;
    grad_out = random_numbers<double>(count, random);
  }

  // All gradients, in one call.
  std::map<std::string, std::vector<double>> gradients(int threads) const {
    const auto in = inputs();
    AttentionPlan<double> plan(shapes_of(in), options, threads);
    std::map<std::string, std::vector<double>> found;
    AttentionGradients<double> to;
    const std::map<std::string, TensorView<double>*> fields = {{"q", &to.q},
                                                               {"k", &to.k},
                                                               {"v", &to.v},
                                                               {"x", &to.x},
                                                               {"y", &to.y},
                                                               {"wq", &to.wq},
                                                               {"wk", &to.wk},
                                                               {"wv", &to.wv},
                                                               {"bq", &to.bq},
                                                               {"bk", &to.bk},
                                                               {"bv", &to.bv},
                                                               {"bias", &to.bias},
                                                               {"rel_bias", &to.rel_bias},
                                                               {"hybrid", &to.hybrid}};
    for (const auto& value : values) {
      auto& room = found[value.first];
      room.assign(value.second.size(), -7.0);
      const TensorView<double> view(room.data(), shapes.at(value.first));
      const auto field = fields.find(value.first);
      if (field == fields.end()) {
        to.energy[value.first] = view;
      } else {
        *field->second = view;
      }
    }
    plan.gradients(in, {grad_out.data(), plan.out_shape()}, to);
    return found;
  }

  // Moves each array in a random direction, one array after another.
  void check(Random& random) {
    const auto one = gradients(1);
    CHECK(gradients(3) == one);
    for (const auto& gradient : one) {
      CAPTURE(gradient.first);
      auto& value = values.at(gradient.first);
      const auto before = value;
      const auto direction = random_numbers<double>(static_cast<Index>(value.size()), random);
      const double step = 1e-5;
      const auto moved = [&](double by) {
        for (std::size_t n = 0; n < value.size(); ++n) value[n] = before[n] + by * direction[n];
        return loss();
      };
      const double difference = (moved(step) - moved(-step)) / (2 * step);
      value = before;
      double product = 0;
      double size = 1;
      for (std::size_t n = 0; n < value.size(); ++n) {
        product += gradient.second[n] * direction[n];
        size += std::abs(gradient.second[n] * direction[n]);
      }
      CHECK(std::abs(difference - product) <= 1e-7 * size);
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("gradients are those of the heads, added up in order", T, float, double) {
  Random random(311);
  for (const BatchSizes& sizes :
       {BatchSizes{2, 6, 2, 5, 7, 3, 2}, BatchSizes{1, 2, 2, 65, 33, 8, 4},
        BatchSizes{1, 3, 1, 280, 300, 4, 3}}) {
    for (const Scheme scheme : schemes_with_fenchel) {
      const Batch<T> batch(sizes, random, true);
      const Causal causal = scheme == Scheme::dnas ? Causal::bottom_right : Causal::none;
      AttentionOptions options = attention_options(scheme, 2);
      options.energy = "dot";
      options.causal = causal;
      std::vector<HeadGradientParts<T>> heads;
      for (Index p = 0; p < sizes.problems(); ++p) {
        heads.emplace_back(batch, p, causal, fixed(scheme, 0.3, 2));
      }
      const Index group = sizes.query_heads / sizes.key_heads;
      for (const int threads : {1, 2}) {
        AttentionPlan<T> plan(shapes_of(batch.inputs()), options, threads);
        std::vector<T> q(batch.q.size()), k(batch.k.size()), v(batch.v.size()), hybrid(1);
        AttentionGradients<T> to;
        to.q = {q.data(), batch.inputs().q.shape};
        to.k = {k.data(), batch.inputs().k.shape};
        to.v = {v.data(), batch.inputs().v.shape};
        if (scheme == Scheme::hnas) to.hybrid = {hybrid.data(), {}};
        for (int again = 0; again < 2; ++again) {
          plan.gradients(batch.inputs(), batch.upstream(), to);
        }
        double u = 0;
        for (Index p = 0; p < sizes.problems(); ++p) {
          const auto& head = heads[static_cast<std::size_t>(p)];
          CHECK(is_block(q, p, head.q));
          u += static_cast<double>(static_cast<T>(head.hybrid));
        }
        if (scheme == Scheme::hnas) CHECK(hybrid[0] == static_cast<T>(u));
        for (Index b = 0; b < sizes.batches * sizes.key_heads; ++b) {
          std::vector<std::vector<T>> of_k, of_v;
          for (Index p = b * group; p < (b + 1) * group; ++p) {
            of_k.push_back(heads[static_cast<std::size_t>(p)].k);
            of_v.push_back(heads[static_cast<std::size_t>(p)].v);
          }
          CHECK(is_block(k, b, summed(of_k)));
          CHECK(is_block(v, b, summed(of_v)));
        }
      }
    }
  }
}

TEST_CASE("gradients of q, k, v, biases and hybrid against differences") {
  Random random(312);
  for (const Scheme scheme : schemes_with_fenchel) {
    CAPTURE(static_cast<int>(scheme));
    Differentiable loss;
    loss.options = attention_options(scheme, 2);
    loss.options.relative = RelativePositions::t5;
    loss.options.softcap = 3.0;
    loss.add("q", {2, 4, 6, 3}, random);
    loss.add("k", {2, 2, 5, 3}, random);
    loss.add("v", {2, 5, 2}, random);
    loss.shapes["v"] = {2, 1, 5, 2};
    loss.add("bias", {4, 1, 5}, random);
    loss.add("rel_bias", {6, 4}, random);
    if (scheme == Scheme::hnas) {
      loss.add("hybrid", {4}, random);
      loss.values["hybrid"] = {0.2, 0.5, 0.7, 0.9};
    }
    loss.draw_grad_out(random);
    loss.check(random);
  }
}

TEST_CASE("gradients of the operands of energies against differences") {
  Random random(313);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    for (const bool mlp : {false, true}) {
      Differentiable loss;
      loss.options = attention_options(scheme, 2);
      loss.options.energy = mlp ? "mlp" : "bilinear";
      loss.add("q", {3, 4, 3}, random);
      loss.add("k", {3, 5, 2}, random);
      loss.add("v", {3, 5, 2}, random);
      if (mlp) {
        loss.add("w1", {4, 5}, random);
        loss.add("w2", {3, 4}, random);
        loss.add("b1", {4}, random);
      } else {
        loss.add("w", {3, 2}, random);
      }
      loss.draw_grad_out(random);
      loss.check(random);
    }
  }
}

TEST_CASE("gradients through projections against differences") {
  Random random(314);
  for (const bool own_keys : {false, true}) {
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
      CAPTURE(own_keys);
      Differentiable loss;
      loss.options = attention_options(scheme, 2);
      loss.add("x", {2, 5, 4}, random);
      if (own_keys) loss.add("y", {2, 6, 3}, random);
      const Index inner = own_keys ? 3 : 4;
      loss.add("wq", {4, 4, 3}, random, 0.5);
      loss.add("wk", {2, inner, 3}, random, 0.5);
      loss.add("wv", {2, inner, 2}, random, 0.5);
      loss.add("bq", {4, 3}, random);
      loss.add("bk", {2, 3}, random);
      loss.add("bv", {2, 2}, random);
      loss.draw_grad_out(random);
      loss.check(random);
    }
  }
}

TEST_CASE_TEMPLATE("a projection gives what its q, k and v give", T, float, double) {
  Random random(315);
  const Index tokens = 37, inner = 10, heads = 2;
  const auto x = random_numbers<T>(tokens * inner, random);
  const auto wq = random_numbers<T>(heads * inner * 4, random, 0.3);
  const auto wk = random_numbers<T>(heads * inner * 4, random, 0.3);
  const auto wv = random_numbers<T>(heads * inner * 5, random, 0.3);
  AttentionInputs<T> in;
  in.x = {x.data(), {tokens, inner}};
  in.wq = {wq.data(), {heads, inner, 4}};
  in.wk = {wk.data(), {heads, inner, 4}};
  in.wv = {wv.data(), {heads, inner, 5}};
  const auto out_of = [](const AttentionInputs<T>& inputs) {
    AttentionPlan<T> plan(shapes_of(inputs), {}, 2);
    std::vector<T> out(static_cast<std::size_t>(heads * tokens * 5));
    AttentionOutputs<T> outputs;
    outputs.out = {out.data(), {heads, tokens, 5}};
    plan.run(inputs, outputs);
    return out;
  };
  std::vector<T> q(static_cast<std::size_t>(heads * tokens * 4)), k(q.size());
  std::vector<T> v(static_cast<std::size_t>(heads * tokens * 5));
  const auto make = [&](const std::vector<T>& w, Index width, std::vector<T>& to) {
    for (Index h = 0; h < heads; ++h) {
      project<T>({x.data(), tokens, inner}, {w.data() + h * inner * width, inner, width}, {},
                 MatrixView<T>(to.data() + h * tokens * width, tokens, width), 1,
                 [] { return std::string("x"); });
    }
  };
  make(wq, 4, q);
  make(wk, 4, k);
  make(wv, 5, v);
  AttentionInputs<T> made;
  made.q = {q.data(), {heads, tokens, 4}};
  made.k = {k.data(), {heads, tokens, 4}};
  made.v = {v.data(), {heads, tokens, 5}};
  CHECK(out_of(in) == out_of(made));
}

TEST_CASE("a sum of finite gradients beyond the range is refused") {
  const std::vector<float> q = {1, 1}, k = {1, -1}, v = {0, 1}, upstream = {3e38F, 3e38F};
  AttentionInputs<float> in;
  in.q = {q.data(), {2, 1, 1}};
  in.k = {k.data(), {1, 2, 1}};
  in.v = {v.data(), {1, 2, 1}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  std::vector<float> by_values(2);
  AttentionGradients<float> to;
  to.v = {by_values.data(), {1, 2, 1}};
  const Error error = thrown_error([&] { plan.gradients(in, {upstream.data(), {2, 1, 1}}, to); });
  CHECK(error.failure() == Failure::numerical);
  CHECK(contains(error.what(), "the gradient of v is beyond the range"));
}

TEST_CASE("the gradient of what no problem uses is 0") {
  std::vector<double> w(6, 1), by_weights(6, 777);
  AttentionInputs<double> in;
  in.x = {w.data(), {0, 4, 3}};
  in.wq = in.wk = in.wv = {w.data(), {2, 3, 1}};
  AttentionPlan<double> plan(shapes_of(in), {}, 1);
  AttentionGradients<double> to;
  to.wq = {by_weights.data(), {2, 3, 1}};
  plan.gradients(in, {w.data(), plan.out_shape()}, to);
  CHECK(by_weights == std::vector<double>(6, 0));
  to.energy["v"] = {by_weights.data(), {2, 3, 1}};
  const Error error = thrown_error([&] { plan.gradients(in, {w.data(), plan.out_shape()}, to); });
  CHECK(contains(error.what(), "v is not an operand of the energy"));
}
