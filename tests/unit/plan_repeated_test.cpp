// Repeated attention of a plan (Repetition) against plain loops in long double.

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/attention.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using LongRows = std::vector<std::vector<long double>>;

template <class T>
LongRows long_rows_of(const Array<T>& array) {
  const Index width = array.shape.back();
  LongRows rows(static_cast<std::size_t>(array.shape[array.shape.size() - 2]));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (Index c = 0; c < width; ++c) {
      rows[i].push_back(
          array.values[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)]);
    }
  }
  return rows;
}

long double square_distance(const std::vector<long double>& a, const std::vector<long double>& b) {
  long double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

struct RepeatedCase {
  Scheme scheme = Scheme::dnas;
  std::string energy = "gaussian";
  double scale = 1;
  Repetition repetition;
};

struct RepeatedProblem {
  LongRows q, k, v;
  std::vector<long double> bias;   // by query; empty: none
  std::vector<std::uint8_t> mask;  // (Lq, Lk); empty: none
  bool allows(std::size_t i, std::size_t j) const {
    return mask.empty() || mask[i * k.size() + j] != 0;
  }
};

struct RepeatedFound {
  LongRows out, centre;
  std::vector<long double> variance, prior;
  std::vector<long double> log_likelihood;
};

// Weights whose rows sum to 1, from scores of which `-HUGE_VALL` is forbidden. Returns LSE by
// column.
std::vector<long double> normalise_rows(LongRows& s, bool columns_first,
                                        std::vector<long double>* mass) {
  std::vector<long double> by_column(s.front().size(), 0);
  for (std::size_t j = 0; columns_first && j < by_column.size(); ++j) {
    long double most = -HUGE_VALL, sum = 0;
    for (const auto& row : s) most = std::max(most, row[j]);
    if (most == -HUGE_VALL) continue;
    for (const auto& row : s) sum += std::exp(row[j] - most);
    by_column[j] = most + std::log(sum);
    for (auto& row : s) row[j] -= by_column[j];
  }
  for (std::size_t i = 0; i < s.size(); ++i) {
    long double most = -HUGE_VALL, sum = 0;
    for (const long double x : s[i]) most = std::max(most, x);
    for (long double& x : s[i]) {
      x = most == -HUGE_VALL ? 0 : std::exp(x - most);
      sum += x;
    }
    for (long double& x : s[i]) x /= sum > 0 ? sum : 1;
    if (mass != nullptr) (*mass)[i] = most == -HUGE_VALL ? 0 : std::exp(most) * sum;
  }
  return by_column;
}

LongRows products_with(const LongRows& weights, const LongRows& values) {
  LongRows out(weights.size(), std::vector<long double>(values.front().size(), 0));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      for (std::size_t c = 0; c < values[j].size(); ++c) out[i][c] += weights[i][j] * values[j][c];
    }
  }
  return out;
}

// The formulas of MATHEMATICS.md §2.
RepeatedFound expected_repeated(const RepeatedProblem& problem, const RepeatedCase& what) {
  const std::size_t n = problem.q.size();
  const auto d = static_cast<long double>(problem.q.front().size());
  const bool em = what.scheme == Scheme::dnas;
  const long double root = what.energy == "scaled-dot" ? std::sqrt(d) : 1.0L;
  std::vector<long double> variance(n, root / what.scale), prior(n, 0);
  long double total = 0;
  for (std::size_t i = 0; em && i < n; ++i) {
    bool any = false;
    for (std::size_t j = 0; j < problem.k.size(); ++j) any = any || problem.allows(i, j);
    long double log = problem.bias.empty() ? 0 : problem.bias[i];
    const std::vector<long double> origin(problem.q[i].size(), 0);
    if (what.energy != "gaussian") log += square_distance(problem.q[i], origin) / (2 * variance[i]);
    prior[i] = any ? std::exp(log) : 0;
    total += prior[i];
  }
  for (long double& one : prior) one /= total > 0 ? total : 1;
  RepeatedFound found;
  LongRows q = problem.q;
  for (Index t = 1;; ++t) {
    LongRows s(n, std::vector<long double>(problem.k.size(), -HUGE_VALL));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < problem.k.size(); ++j) {
        if (!problem.allows(i, j)) continue;
        const long double distance = square_distance(q[i], problem.k[j]);
        if (em) {
          s[i][j] = std::log(prior[i]) - distance / (2 * variance[i]) -
                    d / 2 * std::log(2 * std::numbers::pi_v<long double> * variance[i]);
        } else if (what.energy == "gaussian") {
          s[i][j] = -what.scale * distance / 2;
        } else {
          long double product = 0;
          for (std::size_t c = 0; c < q[i].size(); ++c) product += q[i][c] * problem.k[j][c];
          s[i][j] = what.scale * product / root;
        }
      }
    }
    std::vector<long double> mass(n);
    const std::vector<long double> g = normalise_rows(s, em, &mass);
    long double likelihood = 0;
    for (const long double one : g) likelihood += one;
    found.log_likelihood.push_back(likelihood);
    if (t == what.repetition.iterations) {
      found.out = products_with(s, problem.v);
      found.centre = q;
      found.variance = variance;
      found.prior = prior;
      return found;
    }
    const LongRows next = products_with(s, problem.k);
    long double all = 0;
    for (const long double one : mass) all += one;
    for (std::size_t i = 0; i < n; ++i) {
      if (mass[i] == 0) continue;
      q[i] = next[i];
      long double sum = 0;
      for (std::size_t j = 0; j < problem.k.size(); ++j) {
        sum += s[i][j] * square_distance(q[i], problem.k[j]);
      }
      if (what.repetition.estimates_variance) {
        variance[i] = std::max<long double>(what.repetition.min_variance, sum / d);
      }
      if (what.repetition.estimates_priors) prior[i] = mass[i] / all;
    }
  }
}

std::vector<RepeatedCase> repeated_cases() {
  std::vector<RepeatedCase> all;
  for (const char* const energy : {"gaussian", "dot", "scaled-dot"}) {
    for (const Index iterations : {1, 2, 4}) {
      all.push_back({Scheme::unas, energy, 0.7, Repetition{iterations}});
      for (const bool variance : {false, true}) {
        for (const bool priors : {false, true}) {
          Repetition repetition{iterations, variance, priors};
          if (variance) repetition.min_variance = 0.05;
          all.push_back({Scheme::dnas, energy, 0.7, repetition});
        }
      }
    }
  }
  return all;
}

template <class T>
struct RepeatedArrays {
  Array<T> q, k, v, bias;
  std::vector<std::uint8_t> mask;
  Shape mask_shape;

  RepeatedArrays(Random& random, Index queries, Index keys, Index depth, bool with_terms)
      : q(normal_array<T>({queries, depth}, random, 0.7)),
        k(normal_array<T>({keys, depth}, random)),
        v(normal_array<T>({keys, 3}, random)),
        mask_shape{queries, keys} {
    if (!with_terms) return;
    bias = normal_array<T>({queries, 1}, random);
    for (Index n = 0; n < queries * keys; ++n) mask.push_back(chance(random, 0.8) ? 1 : 0);
  }

  // A bias by query is no part of softmax's weights.
  AttentionInputs<T> inputs(const RepeatedCase& what) const {
    AttentionInputs<T> in;
    in.q = q.view();
    in.k = k.view();
    in.v = v.view();
    if (mask.empty()) return in;
    if (what.scheme == Scheme::dnas) in.bias = bias.view();
    in.mask = {mask.data(), mask_shape};
    return in;
  }
  RepeatedProblem problem() const {
    RepeatedProblem made{long_rows_of(q), long_rows_of(k), long_rows_of(v), {}, mask};
    for (const T one : bias.values) made.bias.push_back(one);
    return made;
  }
};

AttentionOptions repeated_options(const RepeatedCase& what) {
  AttentionOptions options;
  options.scheme = what.scheme;
  options.energy = what.energy;
  options.scale = what.scale;
  options.repetition = what.repetition;
  return options;
}

// Σ grad_out · out.
double loss_of(AttentionPlan<double>& plan, const AttentionInputs<double>& in,
               const Array<double>& grad_out) {
  Array<double> out(grad_out.shape);
  AttentionOutputs<double> outputs;
  outputs.out = out.view();
  plan.run(in, outputs);
  double sum = 0;
  for (std::size_t n = 0; n < out.values.size(); ++n) sum += grad_out.values[n] * out.values[n];
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("repeated attention follows the formulas", T, float, double) {
  Random random(1);
  for (const auto& [queries, keys, depth, terms] :
       {std::tuple<Index, Index, Index, bool>{1, 1, 1, false},
        {5, 3, 2, true},
        {33, 70, 3, true}}) {
    const RepeatedArrays<T> arrays(random, queries, keys, depth, terms);
    for (const RepeatedCase& what : repeated_cases()) {
      CAPTURE(static_cast<int>(what.scheme));
      CAPTURE(what.energy);
      CAPTURE(what.repetition.iterations);
      CAPTURE(what.repetition.estimates_variance);
      CAPTURE(what.repetition.estimates_priors);
      const AttentionInputs<T> in = arrays.inputs(what);
      const RepeatedFound want = expected_repeated(arrays.problem(), what);
      Array<T> out({queries, 3});
      AttentionPlan<T> plan(shapes_of(in), repeated_options(what), 1);
      AttentionOutputs<T> outputs;
      outputs.out = out.view();
      Array<double> centre({queries, depth}), variance({queries}), prior({queries});
      outputs.centre = centre.view();
      if (what.scheme == Scheme::dnas) {
        outputs.variance = variance.view();
        outputs.prior = prior.view();
      }
      const AttentionSummary summary = plan.run(in, outputs);
      // Each time may enlarge what rounding has done to the queries before it.
      const double limit = (sizeof(T) == sizeof(float) ? 4e-5 : 1e-12) *
                           std::pow(4.0, static_cast<double>(what.repetition.iterations - 1));
      const LongRows found = long_rows_of(out);
      for (std::size_t i = 0; i < found.size(); ++i) {
        for (std::size_t c = 0; c < 3; ++c) CHECK(std::abs(found[i][c] - want.out[i][c]) <= limit);
      }
      const LongRows centres = long_rows_of(centre);
      for (std::size_t i = 0; i < centres.size(); ++i) {
        for (std::size_t c = 0; c < centres[i].size(); ++c) {
          CHECK(std::abs(centres[i][c] - want.centre[i][c]) <= limit);
        }
        if (what.scheme != Scheme::dnas) continue;
        CHECK(std::abs(variance.values[i] - want.variance[i]) <= limit);
        CHECK(std::abs(prior.values[i] - want.prior[i]) <= limit);
      }
      CHECK(summary.iterations() == what.repetition.iterations);
      const auto& likelihood = summary.problems.front().log_likelihood;
      if (what.scheme == Scheme::dnas) {
        REQUIRE(likelihood.size() == want.log_likelihood.size());
        for (std::size_t t = 0; t < likelihood.size(); ++t) {
          CHECK(std::abs(likelihood[t] - want.log_likelihood[t]) <=
                limit * static_cast<double>(keys) * 10);
        }
      }
      Array<T> again({queries, 3});
      outputs.out = again.view();
      AttentionPlan<T>(shapes_of(in), repeated_options(what), 5).run(in, outputs);
      CHECK(same_bits(again.values.data(), out.values.data(), queries * 3));
    }
  }
}

TEST_CASE_TEMPLATE("gradients go through every time", T, float, double) {
  Random random(3);
  for (const bool terms : {false, true}) {
    const RepeatedArrays<T> arrays(random, 4, 6, 2, terms);
    const Array<T> grad_out = normal_array<T>({4, 3}, random);
    for (const RepeatedCase& what : repeated_cases()) {
      CAPTURE(static_cast<int>(what.scheme));
      CAPTURE(what.energy);
      CAPTURE(what.repetition.iterations);
      CAPTURE(what.repetition.estimates_variance);
      CAPTURE(what.repetition.estimates_priors);
      const AttentionInputs<T> in = arrays.inputs(what);
      Array<T> dq(arrays.q.shape), dk(arrays.k.shape), dv(arrays.v.shape), dbias({4, 1});
      AttentionGradients<T> gradients;
      gradients.q = dq.view();
      gradients.k = dk.view();
      gradients.v = dv.view();
      const bool biased = in.bias.data != nullptr;
      if (biased) gradients.bias = dbias.view();
      AttentionPlan<T>(shapes_of(in), repeated_options(what), 2)
          .gradients(in, grad_out.view(), gradients);
      const auto loss = [&](const RepeatedProblem& problem) {
        const LongRows out = expected_repeated(problem, what).out;
        long double sum = 0;
        for (std::size_t n = 0; n < 12; ++n) sum += grad_out.values[n] * out[n / 3][n % 3];
        return sum;
      };
      RepeatedProblem problem = arrays.problem();
      const auto check = [&](long double& number, T found) {
        constexpr long double step = 1e-6L;
        const long double start = number;
        number = start + step;
        const long double above = loss(problem);
        number = start - step;
        const long double below = loss(problem);
        number = start;
        const long double slope = (above - below) / (2 * step);
        // Errors of differences of the second order, and in float those of the queries on the way.
        const long double limit = sizeof(T) == sizeof(float) ? 2e-3L : 1e-7L;
        CHECK(std::abs(found - slope) <= limit * std::max(1.0L, std::abs(slope)));
      };
      for (std::size_t n = 0; n < 8; ++n) check(problem.q[n / 2][n % 2], dq.values[n]);
      for (std::size_t n = 0; n < 12; ++n) check(problem.k[n / 2][n % 2], dk.values[n]);
      for (std::size_t n = 0; n < 18; ++n) check(problem.v[n / 3][n % 3], dv.values[n]);
      for (std::size_t n = 0; biased && n < 4; ++n) check(problem.bias[n], dbias.values[n]);
    }
  }
}

TEST_CASE("gradients with dropout of the last time and with a gate") {
  Random random(4);
  const Array<double> gate = normal_array<double>({5, 3}, random);
  const Array<double> grad_out = normal_array<double>({5, 3}, random);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    const bool em = scheme == Scheme::dnas;
    RepeatedArrays<double> arrays(random, 5, 7, 2, false);
    const RepeatedCase what{scheme, "gaussian", 0.9, {3, em, em}};
    AttentionInputs<double> in = arrays.inputs(what);
    in.gate = gate.view();
    AttentionPlan<double> plan(shapes_of(in), repeated_options(what), 2);
    plan.set_dropout(0.4, 11, 5);
    Array<double> dq(arrays.q.shape), dk(arrays.k.shape), dv(arrays.v.shape), dgate(gate.shape);
    AttentionGradients<double> gradients;
    gradients.q = dq.view();
    gradients.k = dk.view();
    gradients.v = dv.view();
    gradients.gate = dgate.view();
    plan.gradients(in, grad_out.view(), gradients);
    const auto loss = [&] { return loss_of(plan, in, grad_out); };
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& found) {
      constexpr double step = 1e-5;
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        const double start = numbers[n];
        numbers[n] = start + step;
        const double above = loss();
        numbers[n] = start - step;
        const double below = loss();
        numbers[n] = start;
        // Third differences, and the roundings of losses of about 1.
        CHECK(std::abs(found[n] - (above - below) / (2 * step)) <= 1e-7);
      }
    };
    check(arrays.q.values, dq.values);
    check(arrays.k.values, dk.values);
    check(arrays.v.values, dv.values);
    Array<double> moved = gate;
    in.gate = moved.view();
    check(moved.values, dgate.values);
  }
}

TEST_CASE("the gradient of a bias under mean shift is the sum over all times") {
  Random random(6);
  const RepeatedArrays<double> arrays(random, 5, 7, 2, true);
  const Array<double> grad_out = normal_array<double>({5, 3}, random);
  for (const Index times : {1, 4}) {
    const RepeatedCase what{Scheme::unas, "gaussian", 0.7, Repetition{times}};
    for (const Shape& shape : {Shape{5, 7}, {1, 7}, {5, 1}, {1, 1}}) {
      CAPTURE(times);
      CAPTURE(shape);
      AttentionInputs<double> in = arrays.inputs(what);
      Array<double> bias = normal_array<double>(shape, random);
      in.bias = std::as_const(bias).view();
      Array<double> found(shape, 7.0);
      AttentionGradients<double> gradients;
      gradients.bias = found.view();
      AttentionPlan<double>(shapes_of(in), repeated_options(what), 2)
          .gradients(in, grad_out.view(), gradients);
      AttentionPlan<double> plan(shapes_of(in), repeated_options(what), 1);
      const auto loss = [&] { return loss_of(plan, in, grad_out); };
      for (std::size_t n = 0; n < bias.values.size(); ++n) {
        constexpr double step = 1e-5;
        const double start = bias.values[n];
        bias.values[n] = start + step;
        const double above = loss();
        bias.values[n] = start - step;
        const double below = loss();
        bias.values[n] = start;
        // Errors of differences: of the second order, and roundings of the loss over the step.
        CHECK(std::abs(found.values[n] - (above - below) / (2 * step)) <= 1e-8);
      }
    }
  }
}

TEST_CASE("what cannot be repeated is refused") {
  Random random(2);
  const RepeatedArrays<double> arrays(random, 4, 5, 2, false);
  const auto refusal = [&](const AttentionOptions& options, const AttentionInputs<double>& in) {
    return thrown_error([&] { AttentionPlan<double>(shapes_of(in), options, 1); });
  };
  const RepeatedCase em{Scheme::dnas, "gaussian", 1, Repetition{2}};
  const AttentionInputs<double> in = arrays.inputs(em);
  for (const Scheme scheme : {Scheme::hnas, Scheme::sinkhorn, Scheme::fenchel}) {
    AttentionOptions options = repeated_options(em);
    options.scheme = scheme;
    CHECK(refusal(options, in).failure() == Failure::usage);
  }
  const auto with = [&](const auto& change) {
    AttentionOptions options = repeated_options(em);
    change(options);
    CHECK(refusal(options, in).failure() == Failure::usage);
  };
  with([](AttentionOptions& options) { options.repetition->iterations = 0; });
  with([](AttentionOptions& options) { options.repetition->min_variance = 0.5; });
  with([](AttentionOptions& options) {
    options.repetition->estimates_variance = true;
    options.scale = 2e6;
  });
  with([](AttentionOptions& options) { options.scale = -1; });
  with([](AttentionOptions& options) { options.softcap = 3; });
  with([](AttentionOptions& options) { options.relative = RelativePositions::alibi; });
  with([](AttentionOptions& options) {
    options.scheme = Scheme::unas;
    options.repetition->estimates_priors = true;
  });
  Array<double> variance({4});
  AttentionOutputs<double> outputs;
  outputs.variance = variance.view();
  RepeatedCase once = em;
  once.scheme = Scheme::unas;
  for (const bool repeated : {false, true}) {
    AttentionOptions options = repeated_options(once);
    if (!repeated) options.repetition.reset();
    AttentionPlan<double> plan(shapes_of(in), options, 1);
    CHECK(thrown_error([&] { plan.run(in, outputs); }).failure() == Failure::usage);
  }
  const std::vector<double> numbers(20, 0.0);
  AttentionInputs<double> by_pair = in;
  by_pair.bias = {numbers.data(), {4, 5}};
  CHECK(refusal(repeated_options(em), by_pair).failure() == Failure::usage);
  AttentionInputs<double> with_sink = in;
  with_sink.sink = {numbers.data(), {}};
  CHECK(refusal(repeated_options(em), with_sink).failure() == Failure::usage);
}
