#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "fenchel/transport.hpp"
#include "gradient/bias_gradient.hpp"
#include "gradient_check.hpp"
#include "random_problem.hpp"
#include "reference/reference_gradient.hpp"
#include "repeats.hpp"
#include "scheme/gradient.hpp"
#include "scheme_check.hpp"
#include "tensor/infinity.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

struct CostOptions {
  double gamma = 1;
  double largest_cost = 3;
  double forbidden = 0;  // share of the costs that are +inf
  bool preference = true;
};

// A problem with costs and preferences of sources. The diagonal is finite, so that each source has
// a target wherever it is allowed.
template <class T>
class CostProblem {
 public:
  CostProblem(const ProblemOptions& options, const CostOptions& transport, Random& random)
      : problem_(options, random), cost_(options.keys, options.keys), gamma_(transport.gamma) {
    const Index n = options.keys;
    std::uniform_real_distribution<double> costs(0, transport.largest_cost);
    for (Index t = 0; t < n; ++t) {
      for (Index i = 0; i < n; ++i) {
        const bool closed = t != i && chance(random, transport.forbidden);
        minus_cost_.push_back(static_cast<T>(closed ? minus_infinity : -costs(random)));
      }
    }
    if (transport.preference) make_preference(random);
    finish();
  }

  void finish() {
    for (std::size_t at = 0; at < minus_cost_.size(); ++at) {
      cost_.values[at] = -static_cast<long double>(minus_cost_[at]) / gamma_;
    }
    const BroadcastMatrix<T> cost(minus_cost_.data(), cost_.cols, 1);
    kernel_.emplace(cost, cost_.rows, gamma_);
    typename Scores<T>::Terms terms = problem_.scores().terms();
    if (!preference_.empty()) {
      sources_.emplace(preference_.data(), cost_.cols, 1);
      terms.sources = &*sources_;
    }
    terms.transport = &*kernel_;
    scores_.emplace(terms);
  }

  const Problem<T>& problem() const { return problem_; }
  const Scores<T>& scores() const { return *scores_; }
  const reference::Matrix& cost() const { return cost_; }
  reference::Matrix preference() const {
    reference::Matrix u;
    if (preference_.empty()) return u;
    u = reference::Matrix(problem_.scores().rows(), cost_.cols);
    std::copy(preference_.begin(), preference_.end(), u.values.begin());
    return u;
  }
  std::vector<T>& minus_cost() { return minus_cost_; }

 private:
  void make_preference(Random& random) {
    std::uniform_real_distribution<double> decades(-6, 2);
    for (Index n = 0; n < problem_.scores().rows() * cost_.cols; ++n) {
      preference_.push_back(
          static_cast<T>(chance(random, 0.2) ? 0 : std::pow(10, decades(random))));
    }
  }

  Problem<T> problem_;
  reference::Matrix cost_;  // over gamma
  double gamma_;
  std::vector<T> minus_cost_, preference_;
  std::optional<TransportKernel> kernel_;
  std::optional<BroadcastMatrix<T>> sources_;
  std::optional<Scores<T>> scores_;
};

template <class T>
struct CostFound {
  std::vector<T> out, weights;
  Attention attention;
};

template <class T>
CostFound<T> attend_at_cost(const CostProblem<T>& problem, int threads = 2) {
  CostFound<T> found;
  const auto v = problem.problem().v();
  found.out.assign(static_cast<std::size_t>(problem.scores().rows() * v.cols), T{-1});
  Output<T> output(v, MatrixView<T>(found.out.data(), problem.scores().rows(), v.cols));
  KeepWeights<T> weights;
  SchemeOptions options;
  options.scheme = Scheme::transport;
  found.attention = attend<T>(problem.scores(), options, {&output, &weights}, threads);
  found.weights = weights.values;
  return found;
}

template <class T>
void check_transport_weights(const CostProblem<T>& problem) {
  const auto s = problem.problem().reference_scores();
  const auto want = reference::transport_weights(s, problem.preference(), problem.cost());
  const CostFound<T> got = attend_at_cost(problem);
  const double bound = tolerance<T>(largest_score(s));
  CHECK(relative_error(got.weights, want.values) <= bound);
  CHECK(relative_error(got.out, reference::output(want, problem.problem().reference_v()).values) <=
        bound);
  for (Index q = 0; q < s.rows; ++q) {
    long double sum = 0;
    for (Index t = 0; t < s.cols; ++t) sum += got.weights[static_cast<std::size_t>(q * s.cols + t)];
    const bool empty = got.attention.potentials.row[static_cast<std::size_t>(q)] == minus_infinity;
    CHECK(std::abs(static_cast<double>(sum) - (empty ? 0 : 1)) <= bound);
    CHECK((got.attention.allowed.keys_of_query[static_cast<std::size_t>(q)] == 0) == empty);
  }
  CHECK(attend_at_cost(problem, 3).out == got.out);
}

template <class T>
struct TransportDerivatives {
  std::vector<T> scores, preference, cost, v;
};

template <class T>
TransportDerivatives<T> derivatives_of(const CostProblem<T>& problem,
                                       const reference::Matrix& grad_out, int threads = 2) {
  const Index rows = problem.scores().rows();
  const Index cols = problem.scores().cols();
  const auto v = problem.problem().v();
  const auto count = [](Index a, Index b) { return static_cast<std::size_t>(a * b); };
  TransportDerivatives<T> gradient{
      std::vector<T>(count(rows, cols)), std::vector<T>(count(rows, cols)),
      std::vector<T>(count(cols, cols)), std::vector<T>(count(cols, v.cols))};
  const CostFound<T> found = attend_at_cost(problem, threads);
  std::vector<T> grad(grad_out.values.size());
  std::transform(grad_out.values.begin(), grad_out.values.end(), grad.begin(),
                 [](long double x) { return static_cast<T>(x); });
  Forward<T> forward;
  forward.scores = &problem.scores();
  forward.options.scheme = Scheme::transport;
  forward.attention = &found.attention;
  forward.v = v;
  forward.out = {found.out.data(), rows, v.cols};
  forward.grad_out = {grad.data(), rows, v.cols};
  const auto scores = make_bias_gradient<T>(rows, cols, {gradient.scores.data(), rows, cols});
  const auto sources = make_bias_gradient<T>(rows, cols, {gradient.preference.data(), rows, cols});
  GradientTargets<T> targets;
  targets.v = {gradient.v.data(), cols, v.cols};
  targets.scores.push_back(scores.get());
  targets.preferences.push_back(sources.get());
  targets.cost = {gradient.cost.data(), cols, cols};
  differentiate<T>(forward, targets, threads);
  return gradient;
}

template <class T>
auto reference_derivatives(const CostProblem<T>& problem, double gamma,
                           const reference::Matrix& grad_out) {
  const auto s = problem.problem().reference_scores();
  const auto v = problem.problem().reference_v();
  reference::Matrix grad_weights(s.rows, s.cols);
  for (Index q = 0; q < s.rows; ++q) {
    for (Index t = 0; t < s.cols; ++t) {
      for (Index c = 0; c < v.cols; ++c) grad_weights(q, t) += grad_out(q, c) * v(t, c);
    }
  }
  auto want =
      reference::differentiate_transport(s, problem.preference(), problem.cost(), grad_weights);
  for (long double& x : want.cost.values) x /= gamma;
  return want;
}

// `saturated`: where each source has one target, reference derivatives are differences of nearly
// equal products; the error is then relative to the largest product.
template <class T>
void check_derivatives(const CostProblem<T>& problem, double gamma, Random& random,
                       bool saturated = false) {
  const auto s = problem.problem().reference_scores();
  const auto v = problem.problem().reference_v();
  const auto grad_out = random_matrix(s.rows, v.cols, random);
  const auto want = reference_derivatives(problem, gamma, grad_out);
  const TransportDerivatives<T> got = derivatives_of(problem, grad_out);
  const double bound = gradient_tolerance<T>(largest_score(s));
  const double products = static_cast<double>(v.cols) * largest_entry(grad_out.values);
  const double floor = saturated ? products * largest_entry(v.values) : 0;
  CHECK(gradient_error(got.scores, want.scores.values, floor) <= bound);
  CHECK(gradient_error(got.preference, want.preference.values, floor) <= bound);
  CHECK(gradient_error(got.cost, want.cost.values, floor) <= bound);
  const TransportDerivatives<T> again = derivatives_of(problem, grad_out, 5);
  CHECK(again.scores == got.scores);
  CHECK(again.preference == got.preference);
  CHECK(again.cost == got.cost);
  CHECK(again.v == got.v);
}

ProblemOptions random_transport_options(Random& random, Index queries, Index keys) {
  ProblemOptions options;
  options.queries = random_size(random, 1, queries);
  options.keys = random_size(random, 1, keys);
  options.depth = random_size(random, 1, 20);
  options.v_head_dim = random_size(random, 1, 20);
  options.energy = EnergyKind::dot;
  options.scale = chance(random, 0.5) ? 0.3 : 1;
  options.bias = chance(random, 0.3);
  options.mask = chance(random, 0.4);
  options.causal = static_cast<Causal>(random_index(random, 0, 2));
  if (chance(random, 0.3)) options.window = Window::nearer_than(random_index(random, 1, 60));
  if (chance(random, 0.3)) options.softcap = 2.0;
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("transport of random problems", T, float, double) {
  Random random(901);
  for (int n = 0; n < repeats(24); ++n) {
    const ProblemOptions options = random_transport_options(random, 150, 100);
    CostOptions transport;
    transport.gamma = n % 3 == 0 ? 0.2 : 1.5;
    transport.forbidden = n % 4 == 0 ? 0.5 : 0;
    transport.preference = n % 5 != 0;
    CAPTURE(n);
    const CostProblem<T> problem(options, transport, random);
    check_transport_weights(problem);
    check_derivatives(problem, transport.gamma, random);
  }
}

TEST_CASE_TEMPLATE("transport at the edges of tiles and panels", T, float, double) {
  Random random(902);
  for (const auto& [queries, keys] :
       {std::pair<Index, Index>{1, 1}, {1, 2}, {2, 1}, {33, 513}, {257, 129}, {290, 31}}) {
    ProblemOptions options;
    options.queries = queries;
    options.keys = keys;
    options.depth = 3;
    options.v_head_dim = 2;
    const CostProblem<T> problem(options, {}, random);
    check_transport_weights(problem);
    check_derivatives(problem, 1, random);
  }
}

// Exponentials of the costs and of the scores are flushed to 0 long before their products are.
TEST_CASE_TEMPLATE("transport at large costs and scores", T, float, double) {
  Random random(903);
  for (const double largest_cost : {1e3, 1e5}) {
    for (const double spread : {1.0, 40.0}) {
      ProblemOptions options;
      options.queries = 35;
      options.keys = 24;
      options.depth = 9;
      options.v_head_dim = 3;
      options.energy = EnergyKind::dot;
      options.spread = spread;
      CostOptions transport;
      transport.largest_cost = largest_cost;
      CAPTURE(largest_cost);
      CAPTURE(spread);
      const CostProblem<T> problem(options, transport, random);
      check_transport_weights(problem);
      check_derivatives(problem, 1, random, true);
    }
  }
}

// The terms of the derivatives cancel to what the few other targets leave, or to nothing.
TEST_CASE_TEMPLATE("gradients of saturated transport", T, float, double) {
  Random random(908);
  ProblemOptions options;
  options.queries = 35;
  options.keys = 24;
  options.depth = 9;
  options.v_head_dim = 3;
  options.mask = true;
  CostOptions transport;
  for (const double gamma : {1.0, 0.6, 1e-30}) {
    transport.gamma = gamma;
    CAPTURE(gamma);
    CostProblem<T> problem(options, transport, random);
    for (Index t = 0; t < 24; ++t) {
      for (Index i = 0; i < 24; ++i) {
        problem.minus_cost()[static_cast<std::size_t>(24 * t + i)] -= t == i ? 0 : T{12};
      }
      problem.minus_cost()[static_cast<std::size_t>(25 * t)] = 0;
    }
    problem.finish();
    const auto grad_out = random_matrix(35, 3, random);
    const TransportDerivatives<T> got = derivatives_of(problem, grad_out);
    if (gamma < 1e-3) {
      CHECK(largest_entry(got.scores) == 0);
      CHECK(largest_entry(got.cost) == 0);
      continue;
    }
    const auto want = reference_derivatives(problem, gamma, grad_out);
    const double bound = 1e3 * std::numeric_limits<T>::epsilon() + 1e-6;
    CHECK(gradient_error(got.scores, want.scores.values, 0) <= bound);
    CHECK(gradient_error(got.cost, want.cost.values, 0) <= bound);
  }
}

TEST_CASE("the reference of transport's gradient against differences") {
  Random random(904);
  ProblemOptions options;
  options.queries = 5;
  options.keys = 6;
  options.depth = 3;
  options.v_head_dim = 1;
  options.causal = Causal::top_left;
  CostOptions transport;
  transport.forbidden = 0.3;
  const CostProblem<double> problem(options, transport, random);
  auto s = problem.problem().reference_scores();
  auto u = problem.preference();
  auto cost = problem.cost();
  // Below 0, a preference has no meaning: differences need some room.
  for (long double& x : u.values) x += 0.1L;
  const auto grad = random_matrix(5, 6, random);
  const auto want = reference::differentiate_transport(s, u, cost, grad);
  const auto loss = [&] {
    const auto w = reference::transport_weights(s, u, cost);
    long double sum = 0;
    for (std::size_t n = 0; n < w.values.size(); ++n) sum += w.values[n] * grad.values[n];
    return sum;
  };
  constexpr long double step = 1e-6L;
  const auto by_differences = [&](reference::Matrix& x) {
    return reference::central_differences(x, loss, step).values;
  };
  CHECK(relative_error(want.scores.values, by_differences(s)) <= 1e-8);
  CHECK(relative_error(want.preference.values, by_differences(u)) <= 1e-8);
  CHECK(relative_error(want.cost.values, by_differences(cost)) <= 1e-8);
}

TEST_CASE("the limits of transport: costs of 0, of +inf, and groups") {
  Random random(905);
  ProblemOptions options;
  options.queries = 40;
  options.keys = 30;
  options.depth = 4;
  options.v_head_dim = 2;
  options.causal = Causal::bottom_right;
  CostProblem<double> problem(options, {}, random);
  auto& cost = problem.minus_cost();
  const auto s = problem.problem().reference_scores();
  const auto u = problem.preference();
  const Index n = options.keys;

  std::fill(cost.begin(), cost.end(), 0.0);
  problem.finish();
  const auto softmax = reference::attend(s, Scheme::unas, 0, 1);
  const auto free = attend_at_cost(problem);
  for (Index q = 0; q < 40; ++q) {
    const auto shares = reference::transport_shares(s, u, q);
    const bool any = std::any_of(shares.begin(), shares.end(), [](auto x) { return x > 0; });
    const double f = free.attention.potentials.row[static_cast<std::size_t>(q)];
    CHECK(
        (any ? std::abs(f - static_cast<double>(softmax.row[static_cast<std::size_t>(q)])) <= 1e-12
             : f == minus_infinity));
    for (Index t = 0; t < n && any; ++t) {
      CHECK(std::abs(free.weights[static_cast<std::size_t>(q * n + t)] -
                     static_cast<double>(softmax.weights(q, t))) <= 1e-14);
    }
  }

  for (Index t = 0; t < n; ++t) {
    for (Index i = 0; i < n; ++i) {
      if (t != i) cost[static_cast<std::size_t>(t * n + i)] = minus_infinity;
    }
  }
  problem.finish();
  const auto walled = attend_at_cost(problem);
  for (Index q = 0; q < 40; ++q) {
    const auto shares = reference::transport_shares(s, u, q);
    for (Index t = 0; t < n; ++t) {
      CHECK(std::abs(walled.weights[static_cast<std::size_t>(q * n + t)] -
                     static_cast<double>(shares[static_cast<std::size_t>(t)])) <= 1e-14);
    }
  }

  // Within groups of three, transport costs nothing: softmax within the group, times its share.
  for (Index t = 0; t < n; ++t) {
    for (Index i = 0; i < n; ++i) {
      cost[static_cast<std::size_t>(t * n + i)] = t / 3 == i / 3 ? 0 : minus_infinity;
    }
  }
  problem.finish();
  const auto grouped = attend_at_cost(problem);
  for (Index q = 0; q < 40; ++q) {
    const auto shares = reference::transport_shares(s, u, q);
    for (Index group = 0; group < n / 3; ++group) {
      long double share = 0, sum = 0, weight = 0;
      for (Index t = 3 * group; t < 3 * group + 3; ++t) {
        share += shares[static_cast<std::size_t>(t)];
        sum += std::exp(s(q, t));
      }
      for (Index t = 3 * group; t < 3 * group + 3; ++t) {
        weight = grouped.weights[static_cast<std::size_t>(q * n + t)];
        const long double want = sum > 0 ? share * std::exp(s(q, t)) / sum : 0;
        CHECK(std::abs(static_cast<double>(weight - want)) <= 1e-14);
      }
    }
  }
}

// The dual's own evaluation of Ψ and its gradient, by loops.
TEST_CASE("transport attention is the gradient of the dual's conjugate at lambda = alpha z") {
  Random random(906);
  ProblemOptions options;
  options.queries = 3;
  options.keys = 17;
  options.depth = 5;
  CostOptions transport;
  transport.gamma = 0.7;
  transport.forbidden = 0.2;
  CostProblem<double> problem(options, transport, random);
  const auto found = attend_at_cost(problem);
  std::vector<double> cost;
  for (const double minus : problem.minus_cost()) cost.push_back(-minus);
  const fenchel::ScaledCost scaled({{cost.data(), 17, 17}, transport.gamma}, 17);
  const auto s = problem.problem().reference_scores();
  const auto u = problem.preference();
  for (Index q = 0; q < 3; ++q) {
    std::vector<double> preference, logits, p(17);
    for (Index t = 0; t < 17; ++t) {
      preference.push_back(static_cast<double>(u(q, t)));
      logits.push_back(static_cast<double>(s(q, t)) * transport.gamma);
    }
    fenchel::Transport dual(scaled, preference.data());
    dual.evaluate(logits.data(), p.data());
    for (Index t = 0; t < 17; ++t) {
      CHECK(std::abs(p[static_cast<std::size_t>(t)] -
                     found.weights[static_cast<std::size_t>(q * 17 + t)]) <= 1e-14);
    }
  }
}

TEST_CASE("what transport refuses") {
  Random random(907);
  ProblemOptions options;
  options.queries = 2;
  options.keys = 3;
  CostProblem<double> problem(options, {.preference = false}, random);
  auto& cost = problem.minus_cost();
  cost[1] = 2;
  const Error negative = thrown_error([&] { problem.finish(); });
  CHECK(negative.failure() == Failure::input);
  CHECK(std::string(negative.what()) ==
        std::string("the cost at [0, 1] is -2, expected a number >= 0 or inf"));
  for (Index t = 0; t < 3; ++t) cost[static_cast<std::size_t>(3 * t + 1)] = minus_infinity;
  problem.finish();
  const Error walled = thrown_error([&] { attend_at_cost(problem); });
  CHECK(walled.failure() == Failure::numerical);
  CHECK(
      std::string(walled.what()) ==
      std::string("query 0: source 1 has a preference but no allowed target: its costs in cost are "
                  "inf for all of them"));
}
