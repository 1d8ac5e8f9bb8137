#include "paths/relu_step.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "relu_step_problem.hpp"

using namespace attn;
using namespace attn::testing;

TEST_CASE("a step on a ReLU network is a gradient step on the values of its basis paths") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 11);
    const std::vector<long double> gradients = plain_gradients(problem);
    const std::vector<double> before = problem.values(problem.weights);
    std::vector<Matrix<double>> moved = problem.weights;
    const double rate = 1e-2 / (1 + largest_size(gradients));
    const ReluStepSummary summary = problem.move(moved, rate);
    REQUIRE(summary.singular.empty());
    // Weights of 1/4 to 2 and sums of some ten terms: the plain system is solved to 1e-15.
    CHECK(summary.inconsistency <= 1e-13);
    const std::vector<double> after = problem.values(moved);
    for (std::size_t n = 0; n < before.size(); ++n) {
      const long double want = before[n] - rate * gradients[n];
      CHECK(std::abs(after[n] - want) <= 1e-12 * (1 + std::abs(want)));
    }
    // The weights of the skeleton into nodes stay.
    for (Index l = 1; l < problem.layers.count(); ++l) {
      const auto at = static_cast<std::size_t>(l - 1);
      for (Index b = 0; b < problem.layers.size(l); ++b) {
        const Index a = problem.basis.in_of(l, b);
        CHECK(moved[at](a, b) == problem.weights[at](a, b));
      }
    }
  }
}

TEST_CASE("gradients of basis paths of a ReLU network are differences of the loss") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 12);
    std::vector<double> in_weights;
    for (Index l = 1; l < problem.layers.count(); ++l) {
      for (Index b = 0; b < problem.layers.size(l); ++b) {
        in_weights.push_back(
            problem.weights[static_cast<std::size_t>(l - 1)](problem.basis.in_of(l, b), b));
      }
    }
    const std::vector<double> before = problem.values(problem.weights);
    std::vector<Matrix<double>> moved = problem.weights;
    // So small that activities do not change, so large that differences keep half of the digits.
    const double rate = 1e-8;
    REQUIRE(problem.move(moved, rate).singular.empty());
    const std::vector<double> after = problem.values(moved);
    for (std::size_t n = 0; n < before.size(); ++n) {
      const auto loss_at = [&](double by) {
        std::vector<double> values = before;
        values[n] += by;
        std::vector<Matrix<double>> made = problem.weights;
        basis_weights(problem.basis, values.data(), in_weights, views(made), 1);
        return problem.loss.value(made);
      };
      // Central differences: errors of h² and of roundings of 1e-16 over h.
      const double h = 1e-6;
      const auto gradient = static_cast<double>((loss_at(h) - loss_at(-h)) / (2 * h));
      const double found = (before[n] - after[n]) / rate;
      // The values have 1e-16 of their size, over the rate.
      CHECK(std::abs(found - gradient) <= 1e-6 * (1 + std::abs(gradient)));
    }
  }
}

TEST_CASE("rescaled ReLU networks follow the same function") {
  for (const Sizes& sizes : relu_sizes()) {
    for (const bool powers : {true, false}) {
      ReluProblem problem(sizes, 13);
      std::vector<Matrix<double>> plain = problem.weights;
      std::vector<Matrix<double>> scaled = problem.weights;
      rescale_nodes(problem.layers, random_factors(problem, powers), false, views(scaled), 1);
      const double rate = 1e-2 / (1 + largest_size(plain_gradients(problem)));
      const std::vector<double> before = problem.values(plain);
      for (int n = 0; n < 10; ++n) {
        REQUIRE(problem.move(plain, rate).singular.empty());
        REQUIRE(problem.move(scaled, rate).singular.empty());
      }
      const std::vector<double> want = problem.values(plain);
      const std::vector<double> found = problem.values(scaled);
      CHECK(want != before);
      if (powers) CHECK(found == want);
      for (std::size_t n = 0; n < want.size(); ++n) {
        CHECK(std::abs(found[n] - want[n]) <= 1e-12 * (1 + std::abs(want[n])));
      }
      for (const std::vector<double>& input : problem.loss.inputs) {
        const auto right = ReluLoss::nodes(plain, input).back();
        const auto same = ReluLoss::nodes(scaled, input).back();
        for (std::size_t c = 0; c < right.size(); ++c) {
          CHECK(std::abs(same[c] - right[c]) <= 1e-12L * (1 + std::abs(right[c])));
        }
      }
    }
  }
}

TEST_CASE("a step on a ReLU network in float32, and with more threads") {
  ReluProblem problem({9, 17, 5, 3}, 14);
  std::vector<Matrix<double>> one = problem.weights;
  std::vector<Matrix<double>> more = problem.weights;
  std::vector<Matrix<float>> single;
  for (const Matrix<double>& w : problem.weights) single.emplace_back(w);
  // Both start from the numbers of float32.
  for (std::size_t l = 0; l < single.size(); ++l) one[l] = more[l] = Matrix<double>(single[l]);
  const std::vector<Matrix<float>> gradients = problem.loss.gradients(single);
  std::vector<Matrix<double>> same;
  for (const Matrix<float>& gradient : gradients) same.emplace_back(gradient);
  const StepOptions options = with_rate(1e-4);
  const ReluStepSummary wide =
      step<double>(options, problem.layers, problem.skeleton, {views(one), const_views(same)}, 1);
  step<double>(options, problem.layers, problem.skeleton, {views(more), const_views(same)}, 3);
  const ReluStepSummary narrow = step<float>(options, problem.layers, problem.skeleton,
                                             {views(single), const_views(gradients)}, 2);
  CHECK(wide.least_ratio == narrow.least_ratio);
  REQUIRE(wide.singular.empty());
  for (std::size_t l = 0; l < one.size(); ++l) {
    CHECK(one[l] == more[l]);
    CHECK(Matrix<float>(one[l]) == single[l]);  // rounded once
  }
}

TEST_CASE("the skeleton's path through a singular node stays or is clipped, and the others move") {
  int singular = 0;
  for (const Sizes& sizes : relu_sizes()) {
    for (const bool clips : {false, true}) {
      ReluProblem problem(sizes, 15);
      const std::vector<long double> gradients = plain_gradients(problem);
      const std::vector<double> before = problem.values(problem.weights);
      StepOptions options = with_rate(20 / (1 + largest_size(gradients)));
      options.clips = clips;
      options.min_ratio = 0.25;
      std::vector<Matrix<double>> moved = problem.weights;
      const ReluStepSummary summary = problem.move(moved, options);
      std::vector<long double> want;
      for (std::size_t n = 0; n < before.size(); ++n) {
        want.push_back(before[n] - options.rate * gradients[n]);
      }
      for (const SingularNode& node : summary.singular) {
        const std::size_t path = path_through(problem.basis, node);
        CHECK(node.ratio < 0.25);
        CHECK(node.ratio == doctest::Approx(static_cast<double>(1 - options.rate * gradients[path] /
                                                                        before[path])));
        want[path] = clips ? 0.25 * before[path] : before[path];
        ++singular;
      }
      const std::vector<double> after = problem.values(moved);
      for (std::size_t n = 0; n < before.size(); ++n) {
        CHECK(std::abs(after[n] - want[n]) <= 1e-12 * (1 + std::abs(want[n])));
      }
      CHECK(summary.singular.empty() == (summary.least_ratio >= 0.25));
    }
  }
  CHECK(singular > 10);
}

TEST_CASE("a ReLU network does not move if a path of its skeleton has the value 0") {
  ReluProblem problem({3, 4, 3, 2}, 15);
  std::vector<Matrix<double>> weights = problem.weights;
  weights[0](problem.basis.in_of(1, 2), 2) = 0;
  const std::vector<Matrix<double>> before = weights;
  StepOptions options = with_rate(1e-9);
  options.optimizer = Optimizer::si_adam;
  PathNumbers moments(problem.layers.rank());
  const PathNumbers none = moments;
  for (const bool clips : {false, true}) {
    options.clips = clips;
    const ReluStepSummary summary = problem.move(weights, options, &moments);
    REQUIRE(!summary.singular.empty());
    CHECK(summary.singular.front().layer == 1);
    CHECK(summary.singular.front().node == 2);
    CHECK(std::isnan(summary.singular.front().ratio));
    CHECK(weights == before);
    CHECK(moments == none);
  }
}

TEST_CASE("gradients that no loss of the output has are seen") {
  ReluProblem problem({3, 4, 2}, 16);
  std::vector<Matrix<double>> gradients = problem.loss.gradients(problem.weights);
  gradients[0](0, 1) += 1;
  std::vector<Matrix<double>> weights = problem.weights;
  const ReluStepSummary summary = step<double>(with_rate(1e-6), problem.layers, problem.skeleton,
                                               {views(weights), const_views(gradients)}, 1);
  CHECK(summary.inconsistency > 1e-3);
}
