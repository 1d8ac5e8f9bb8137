// Attention sinks and output gates against plain evaluations and differences.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "plan_problem.hpp"
#include "scheme_check.hpp"
#include "tensor/infinity.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using SinkNumbers = std::vector<long double>;

// The weights of one problem from ready-made scores, by the definition: the sink joins the sum of a
// row, under dnas after the division by the column sums.
struct PlainSink {
  Index queries, keys;
  reference::Matrix weights;
  SinkNumbers row, unas_row, sink;

  PlainSink(const reference::Matrix& s, Scheme scheme, long double u, long double sink_logit)
      : queries(s.rows), keys(s.cols), weights(s.rows, s.cols), sink(SinkNumbers(s.rows, 0)) {
    if (scheme == Scheme::hnas || scheme == Scheme::dnas) {
      row = add(s, scheme == Scheme::dnas ? 1 : u, sink_logit, true);
    }
    if (scheme == Scheme::hnas) unas_row = add(s, 1 - u, sink_logit, false);
    if (scheme == Scheme::unas) row = add(s, 1, sink_logit, false);
  }

  SinkNumbers add(const reference::Matrix& s, long double share, long double logit,
                  bool by_column) {
    SinkNumbers column(static_cast<std::size_t>(keys), 1), potential;
    for (Index j = 0; by_column && j < keys; ++j) {
      long double sum = 0;
      for (Index i = 0; i < queries; ++i) sum += std::exp(s(i, j));
      column[static_cast<std::size_t>(j)] = sum;
    }
    for (Index i = 0; i < queries; ++i) {
      long double sum = std::exp(logit);
      const auto term = [&](Index j) {
        const long double of_column = column[static_cast<std::size_t>(j)];
        return of_column > 0 ? std::exp(s(i, j)) / of_column : 0.0L;
      };
      for (Index j = 0; j < keys; ++j) sum += term(j);
      for (Index j = 0; sum > 0 && j < keys; ++j) weights(i, j) += share * term(j) / sum;
      if (sum > 0) sink[static_cast<std::size_t>(i)] += share * std::exp(logit) / sum;
      potential.push_back(std::log(sum));
    }
    return potential;
  }

  SinkNumbers entropies() const {
    SinkNumbers all = reference::row_entropies(weights);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (sink[i] > 0) all[i] -= sink[i] * std::log(sink[i]);
    }
    return all;
  }
};

// One problem of ready-made scores with all its results.
template <class T>
struct Gated {
  Index queries, keys, width;
  std::vector<T> scores, v, gate, grad_out;
  std::vector<double> sink;
  AttentionOptions options;

  std::vector<T> out, weights, grad_v, grad_bias, grad_gate, grad_sink, grad_hybrid;
  std::vector<double> row, unas_row, col_sum, entropy;

  Gated(Index lq, Index lk, double spread, double logit, Scheme scheme, Random& random)
      : queries(lq),
        keys(lk),
        width(5),
        scores(random_numbers<T>(lq * lk, random, spread)),
        v(random_numbers<T>(lk * 5, random)),
        gate(random_numbers<T>(lq * 5, random)),
        grad_out(random_numbers<T>(lq * 5, random)),
        sink{logit},
        options(attention_options(scheme)) {}

  AttentionInputs<T> inputs(bool gated) const {
    AttentionInputs<T> in;
    in.scores = {scores.data(), {queries, keys}};
    in.v = {v.data(), {keys, width}};
    in.sink = {sink.data(), {}};
    if (gated) in.gate = {gate.data(), {queries, width}};
    return in;
  }

  void run(bool gated) {
    const auto in = inputs(gated);
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    const auto room = [](auto& values, Index size) {
      values.resize(static_cast<std::size_t>(size));
      return values.data();
    };
    AttentionOutputs<T> to;
    to.out = {room(out, queries * width), {queries, width}};
    to.weights = {room(weights, queries * keys), {queries, keys}};
    to.row_potential = {room(row, queries), {queries}};
    to.col_sum = {room(col_sum, keys), {keys}};
    to.row_entropy = {room(entropy, queries), {queries}};
    if (options.scheme == Scheme::hnas) {
      to.unas_row_potential = {room(unas_row, queries), {queries}};
    }
    plan.run(in, to);
  }

  // Gradients without asking for any other result, through a bias of 0.
  void differentiate() {
    auto in = inputs(true);
    const std::vector<T> bias(scores.size(), T{0});
    in.bias = {bias.data(), {queries, keys}};
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    AttentionGradients<T> to;
    const auto room = [](auto& values, Index size) {
      values.resize(static_cast<std::size_t>(size));
      return values.data();
    };
    to.v = {room(grad_v, keys * width), {keys, width}};
    to.bias = {room(grad_bias, queries * keys), {queries, keys}};
    to.gate = {room(grad_gate, queries * width), {queries, width}};
    to.sink = {room(grad_sink, 1), {}};
    if (options.scheme == Scheme::hnas) to.hybrid = {room(grad_hybrid, 1), {}};
    plan.gradients(in, {grad_out.data(), {queries, width}}, to);
  }

  reference::Matrix reference_scores() const {
    reference::Matrix s(queries, keys);
    for (std::size_t n = 0; n < scores.size(); ++n) s.values[n] = scores[n];
    return s;
  }

  // Σ grad_out · σ(gate) · out, by definition.
  long double loss(const reference::Matrix& s, long double u, long double logit) const {
    const PlainSink plain(s, options.scheme, u, logit);
    long double sum = 0;
    for (Index i = 0; i < queries; ++i) {
      for (Index c = 0; c < width; ++c) {
        const auto at = static_cast<std::size_t>(i * width + c);
        long double o = 0;
        for (Index j = 0; j < keys; ++j) {
          o += plain.weights(i, j) *
               static_cast<long double>(v[static_cast<std::size_t>(j * width + c)]);
        }
        sum += static_cast<long double>(grad_out[at]) * o /
               (1 + std::exp(-static_cast<long double>(gate[at])));
      }
    }
    return sum;
  }
};

constexpr Scheme with_sinks[] = {Scheme::unas, Scheme::dnas, Scheme::hnas};

}  // namespace

TEST_CASE_TEMPLATE("sinks and gates against a plain evaluation", T, float, double) {
  Random random(411);
  for (const Scheme scheme : with_sinks) {
    for (const double spread : {0.5, 12.0}) {
      for (const double logit : {-40.0, -1.0, 0.0, 2.0, 25.0, -infinity}) {
        for (const Index queries : {1, 7, 130}) {
          CAPTURE(static_cast<int>(scheme));
          CAPTURE(spread);
          CAPTURE(logit);
          CAPTURE(queries);
          const Index keys = queries == 7 ? 1 : 67;
          Gated<T> p(queries, keys, spread, logit, scheme, random);
          p.scores[0] = static_cast<T>(-infinity);
          p.run(true);
          const auto s = p.reference_scores();
          const PlainSink want(s, scheme, static_cast<long double>(p.options.hybrid), logit);
          const double bound = 4 * tolerance<T>(largest_score(s));
          CHECK(relative_error(p.weights, want.weights.values) <= bound);
          CHECK(relative_error(p.col_sum, reference::column_sums(want.weights)) <= bound);
          reference::Matrix v(keys, 5);
          for (std::size_t n = 0; n < p.v.size(); ++n) v.values[n] = p.v[n];
          auto out = reference::output(want.weights, v);
          for (std::size_t n = 0; n < out.values.size(); ++n) {
            out.values[n] /= 1 + std::exp(-static_cast<long double>(p.gate[n]));
          }
          CHECK(relative_error(p.out, out.values) <= bound);
          check_potentials(p.row, want.row, 4 * bound);
          if (scheme == Scheme::hnas) check_potentials(p.unas_row, want.unas_row, 4 * bound);
          const SinkNumbers entropies = want.entropies();
          for (std::size_t i = 0; i < entropies.size(); ++i) {
            CHECK(std::abs(static_cast<double>(p.entropy[i] - entropies[i])) <=
                  8 * bound * (1 + largest_score(s)));
          }
          // The output alone, which other passes gather, agrees to rounding.
          AttentionOutputs<T> alone;
          std::vector<T> only(p.out.size());
          alone.out = {only.data(), {queries, p.width}};
          const auto in = p.inputs(true);
          AttentionPlan<T>(shapes_of(in), p.options, 1).run(in, alone);
          CHECK(relative_error(only, p.out) <= bound);
        }
      }
    }
  }
}

TEST_CASE("gradients with sinks and gates are central differences") {
  Random random(412);
  for (const Scheme scheme : with_sinks) {
    for (const double logit : {-3.0, 0.5, 4.0}) {
      for (const Index queries : {3, 40}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(logit);
        CAPTURE(queries);
        const Index keys = queries == 3 ? 4 : 33;
        Gated<double> p(queries, keys, 1.5, logit, scheme, random);
        for (double& value : p.v) value += 3;  // rows of less than 1 do not let a constant pass
        p.differentiate();
        const auto s = p.reference_scores();
        const long double u = static_cast<long double>(p.options.hybrid);
        const long double step = 1e-4L;
        const auto slope = [&](const auto& at) {
          return static_cast<double>((at(step) - at(-step)) / (2 * step));
        };
        const double scale = 1e-6 * static_cast<double>(queries);
        CHECK(std::abs(p.grad_sink[0] -
                       slope([&](long double h) { return p.loss(s, u, logit + h); })) <= scale);
        if (scheme == Scheme::hnas) {
          CHECK(std::abs(p.grad_hybrid[0] -
                         slope([&](long double h) { return p.loss(s, u + h, logit); })) <= scale);
        }
        for (int n = 0; n < 12; ++n) {
          const auto at = static_cast<std::size_t>(random_index(random, 0, queries * keys - 1));
          CHECK(std::abs(p.grad_bias[at] - slope([&](long double h) {
                           auto moved = s;
                           moved.values[at] += h;
                           return p.loss(moved, u, logit);
                         })) <= 1e-6);
          const auto of_v = static_cast<std::size_t>(random_index(random, 0, keys * 5 - 1));
          CHECK(std::abs(p.grad_v[of_v] - slope([&](long double h) {
                           auto moved = p;
                           moved.v[of_v] += static_cast<double>(h);
                           return moved.loss(s, u, logit);
                         })) <= 1e-6 * static_cast<double>(queries));
          const auto of_gate = static_cast<std::size_t>(random_index(random, 0, queries * 5 - 1));
          CHECK(std::abs(p.grad_gate[of_gate] - slope([&](long double h) {
                           auto moved = p;
                           moved.gate[of_gate] += static_cast<double>(h);
                           return moved.loss(s, u, logit);
                         })) <= 1e-6);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("gradients in float32 and float64 agree with sinks", T, float, double) {
  Random random(413);
  for (const Scheme scheme : with_sinks) {
    Gated<T> p(150, 300, 0.7, 1.0, scheme, random);
    p.differentiate();
    Gated<double> exact(150, 300, 1, 1.0, scheme, random);
    exact.scores.assign(p.scores.begin(), p.scores.end());
    exact.v.assign(p.v.begin(), p.v.end());
    exact.gate.assign(p.gate.begin(), p.gate.end());
    exact.grad_out.assign(p.grad_out.begin(), p.grad_out.end());
    exact.differentiate();
    CAPTURE(static_cast<int>(scheme));
    CHECK(relative_error(p.grad_bias, exact.grad_bias) <= 1e-4);
    CHECK(relative_error(p.grad_v, exact.grad_v) <= 1e-4);
    CHECK(relative_error(p.grad_gate, exact.grad_gate) <= 1e-4);
    CHECK(relative_error(p.grad_sink, exact.grad_sink) <= 1e-3);
    if (scheme == Scheme::hnas) CHECK(relative_error(p.grad_hybrid, exact.grad_hybrid) <= 1e-3);
  }
}

TEST_CASE("a query that sees no key gives everything to the sink") {
  const std::vector<double> scores{-infinity, -infinity, 0, 0}, v{1, 2}, sink{0.25};
  std::vector<double> out(2), row(2), entropy(2);
  for (const Scheme scheme : with_sinks) {
    AttentionInputs<double> in;
    in.scores = {scores.data(), {2, 2}};
    in.v = {v.data(), {2, 1}};
    in.sink = {sink.data(), {}};
    AttentionPlan<double> plan(shapes_of(in), attention_options(scheme), 1);
    AttentionOutputs<double> to;
    to.out = {out.data(), {2, 1}};
    to.row_potential = {row.data(), {2}};
    to.row_entropy = {entropy.data(), {2}};
    const AttentionSummary summary = plan.run(in, to);
    CHECK(out[0] == 0);
    CHECK(row[0] == 0.25);
    CHECK(entropy[0] == 0);
    CHECK(summary.empty_queries() == 1);
  }
}

TEST_CASE("sinks and gates that do not fit are refused") {
  const std::vector<double> scores(4), v(2), sink{std::nan("")}, gate(6);
  AttentionInputs<double> in;
  in.scores = {scores.data(), {2, 2}};
  in.sink = {sink.data(), {}};
  AttentionPlan<double> plan(shapes_of(in), {}, 1);
  CHECK(
      contains(thrown_error([&] { plan.run(in, {}); }).what(), "expected a finite number or -inf"));
  const auto refused = [&](Scheme scheme) {
    return thrown_error(
        [&] { AttentionPlan<double>(shapes_of(in), attention_options(scheme), 1); });
  };
  CHECK(contains(refused(Scheme::sinkhorn).what(), "sinkhorn has no operand sink"));
  in.gate = {gate.data(), {2, 3}};
  CHECK(contains(refused(Scheme::unas).what(), "gate needs values"));
  in.v = {v.data(), {2, 1}};
  CHECK(contains(refused(Scheme::unas).what(), "gate has shape (2, 3)"));
}
