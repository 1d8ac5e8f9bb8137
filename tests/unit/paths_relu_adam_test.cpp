// Steps with moments on the values of the basis paths of ReLU networks.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "relu_step_problem.hpp"

using namespace attn;
using namespace attn::testing;

TEST_CASE("si_adam on a ReLU network is Adam on the values of its basis paths") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 17);
    StepOptions options = with_rate(1e-3);
    options.optimizer = Optimizer::si_adam;
    const auto rank = static_cast<std::size_t>(problem.layers.rank());
    PathNumbers moments(problem.layers.rank());
    std::vector<long double> first(rank, 0);
    std::vector<long double> second(rank, 0);
    std::vector<Matrix<double>> moved = problem.weights;
    for (options.number = 1; options.number <= 3; ++options.number) {
      const std::vector<long double> gradients = plain_gradients(problem, moved);
      const std::vector<double> before = problem.values(moved);
      REQUIRE(problem.move(moved, options, &moments).singular.empty());
      const std::vector<double> after = problem.values(moved);
      for (std::size_t n = 0; n < rank; ++n) {
        first[n] = 0.9L * first[n] + 0.1L * gradients[n];
        second[n] = 0.999L * second[n] + 0.001L * gradients[n] * gradients[n];
        const long double m = first[n] / (1 - std::pow(0.9L, options.number));
        const long double v = second[n] / (1 - std::pow(0.999L, options.number));
        const long double want = before[n] - 1e-3L * m / (std::sqrt(v) + 1e-8L);
        // The plain gradients have errors of 1e-14, which a small one feels beside epsilon.
        CHECK(std::abs(after[n] - want) <= 1e-9L * (1 + std::abs(want)));
        CHECK(std::abs(moments.first.values[n] - first[n]) <= 1e-12L * (1 + std::abs(first[n])));
        CHECK(std::abs(moments.second.values[n] - second[n]) <= 1e-12L * (1 + second[n]));
      }
    }
  }
}

TEST_CASE("si_adam of rescaled ReLU networks has the same moments and values") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 18);
    StepOptions options = with_rate(1e-3);
    options.optimizer = Optimizer::si_adam;
    std::vector<Matrix<double>> plain = problem.weights;
    std::vector<Matrix<double>> scaled = problem.weights;
    rescale_nodes(problem.layers, random_factors(problem, true), false, views(scaled), 1);
    PathNumbers of_plain(problem.layers.rank());
    PathNumbers of_scaled = of_plain;
    for (options.number = 1; options.number <= 5; ++options.number) {
      problem.move(plain, options, &of_plain);
      problem.move(scaled, options, &of_scaled);
    }
    CHECK(of_plain == of_scaled);
    CHECK(problem.values(plain) == problem.values(scaled));
    CHECK(problem.values(plain) != problem.values(problem.weights));
  }
}

TEST_CASE("si_sgd of rescaled ReLU networks has the same momentum and values") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 18);
    StepOptions options = with_rate(1e-3);
    options.momentum = 0.9;
    options.decay = 0.2;
    options.gradient_factor = 0.7;
    std::vector<Matrix<double>> plain = problem.weights;
    std::vector<Matrix<double>> scaled = problem.weights;
    rescale_nodes(problem.layers, random_factors(problem, true), false, views(scaled), 1);
    PathNumbers of_plain(problem.layers.rank());
    PathNumbers of_scaled = of_plain;
    std::vector<long double> momentum(of_plain.first.values.size(), 0);
    for (int n = 0; n < 3; ++n) {
      const std::vector<long double> gradients = plain_gradients(problem, plain);
      const std::vector<double> before = problem.values(plain);
      problem.move(plain, options, &of_plain);
      problem.move(scaled, options, &of_scaled);
      const std::vector<double> after = problem.values(plain);
      for (std::size_t path = 0; path < momentum.size(); ++path) {
        momentum[path] = 0.9L * momentum[path] + 0.7L * gradients[path] + 0.2L * before[path];
        const long double want = before[path] - 1e-3L * momentum[path];
        CHECK(std::abs(after[path] - want) <= 1e-12L * (1 + std::abs(want)));
      }
    }
    CHECK(of_plain == of_scaled);
    CHECK(problem.values(plain) == problem.values(scaled));
  }
}

TEST_CASE("the moments of a path that stays do not change") {
  ReluProblem problem({3, 4, 3, 2}, 19);
  StepOptions options = with_rate(1e3);
  options.optimizer = Optimizer::si_adam;
  PathNumbers moments(problem.layers.rank());
  std::vector<Matrix<double>> weights = problem.weights;
  const ReluStepSummary summary = problem.move(weights, options, &moments);
  REQUIRE(!summary.singular.empty());
  for (const SingularNode& node : summary.singular) {
    CHECK(moments.second.values[path_through(problem.basis, node)] == 0);
  }
  CHECK(std::count(moments.second.values.begin(), moments.second.values.end(), 0) <
        problem.layers.rank());
}
