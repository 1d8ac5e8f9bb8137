#include "paths/relu_step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "relu_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

bool all_zero(const std::vector<Matrix<double>>& matrices) {
  for (const Matrix<double>& matrix : matrices) {
    for (const double number : matrix.values) {
      if (number != 0) return false;
    }
  }
  return true;
}

// Not one whose outputs are 0 whatever the input.
std::vector<Matrix<double>> live_network(const ReluLayers& layers, const ReluLoss& loss,
                                         Numbers& numbers) {
  std::vector<Matrix<double>> weights;
  do weights = random_network<double>(layers, numbers);
  while (all_zero(loss.gradients(weights)));
  return weights;
}

StepOptions with_rate(double rate) {
  StepOptions options;
  options.rate = rate;
  return options;
}

// Both moments, by basis path.
struct PathNumbers {
  Matrix<double> first;
  Matrix<double> second;
  explicit PathNumbers(Index rank) : first(1, rank), second(1, rank) {}
  bool operator==(const PathNumbers&) const = default;
};

// A network whose skeleton, by the largest paths, is not near 0.
struct ReluProblem {
  ReluLayers layers;
  Numbers numbers;
  ReluLoss loss;
  std::vector<Matrix<double>> weights;
  ReluSkeleton skeleton;
  ReluBasis basis;

  ReluProblem(const Sizes& sizes, unsigned seed)
      : layers(sizes),
        numbers(seed),
        loss(layers, numbers),
        weights(live_network(layers, loss, numbers)),
        skeleton(largest_skeleton(layers, const_views(weights))),
        basis(layers, skeleton) {}
  ReluProblem(const ReluProblem&) = delete;
  ReluProblem& operator=(const ReluProblem&) = delete;

  std::vector<double> values(const std::vector<Matrix<double>>& of) const {
    std::vector<double> found(static_cast<std::size_t>(layers.rank()));
    basis_values(basis, const_views(of), found.data(), 1);
    return found;
  }

  ReluStepSummary move(std::vector<Matrix<double>>& start, const StepOptions& options,
                       PathNumbers* moments = nullptr) const {
    const std::vector<Matrix<double>> gradients = loss.gradients(start);
    ReluStepMatrices<double> matrices = {views(start), const_views(gradients)};
    if (moments != nullptr) {
      matrices.first_moment = moments->first.view();
      matrices.second_moment = moments->second.view();
    }
    return step(options, basis, matrices, 1);
  }
  ReluStepSummary move(std::vector<Matrix<double>>& start, double rate) const {
    return move(start, with_rate(rate));
  }
};

// Gaussian elimination with pivots.
std::vector<long double> solved(std::vector<std::vector<long double>> m) {
  const std::size_t n = m.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r) {
      if (std::abs(m[r][c]) > std::abs(m[pivot][c])) pivot = r;
    }
    std::swap(m[c], m[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const long double factor = m[r][c] / m[c][c];
      for (std::size_t k = c; k <= n; ++k) m[r][k] -= factor * m[c][k];
    }
  }
  std::vector<long double> x;
  for (std::size_t r = 0; r < n; ++r) x.push_back(m[r][n] / m[r][r]);
  return x;
}

// ∂L/∂v by the normal equations of W ∂L/∂W = Σ v ∂L/∂v, in the structure vectors of the basis.
std::vector<long double> plain_gradients(const ReluProblem& problem,
                                         const std::vector<Matrix<double>>& weights) {
  const std::vector<Sizes> paths = basis_of(problem.basis);
  const std::vector<Matrix<double>> gradients = problem.loss.gradients(weights);
  std::vector<std::vector<long double>> system;
  for (const Sizes& path : paths) {
    std::vector<long double> row;
    for (const Sizes& other : paths) {
      long double shared = 0;
      for (std::size_t l = 1; l < path.size(); ++l) {
        shared += path[l - 1] == other[l - 1] && path[l] == other[l] ? 1 : 0;
      }
      row.push_back(shared);
    }
    long double right = 0;
    for (std::size_t l = 1; l < path.size(); ++l) {
      right += static_cast<long double>(gradients[l - 1](path[l - 1], path[l])) *
               weights[l - 1](path[l - 1], path[l]);
    }
    row.push_back(right);
    system.push_back(std::move(row));
  }
  std::vector<long double> found = solved(std::move(system));
  for (std::size_t n = 0; n < paths.size(); ++n) {
    found[n] /= relu_path_value(weights, paths[n]);
  }
  return found;
}

std::vector<long double> plain_gradients(const ReluProblem& problem) {
  return plain_gradients(problem, problem.weights);
}

// The number of the skeleton's path through a node.
std::size_t path_through(const ReluBasis& basis, const SingularNode& node) {
  Index layer = node.layer;
  Index at = node.node;
  // The weight into a node that is also out of one has that one's path.
  while (basis.is_out(layer, basis.in_of(layer, at), at)) at = basis.in_of(layer--, at);
  return static_cast<std::size_t>(basis.number(layer, basis.in_of(layer, at), at));
}

double size_of(const std::vector<long double>& numbers) {
  long double largest = 0;
  for (const long double number : numbers) largest = std::max(largest, std::abs(number));
  return static_cast<double>(largest);
}

std::vector<double> random_factors(ReluProblem& problem, bool powers) {
  std::vector<double> factors;
  for (Index n = 0; n < problem.layers.hidden(); ++n) {
    const double factor = std::abs(problem.numbers());
    factors.push_back(powers ? std::ldexp(1.0, static_cast<int>(8 * factor) - 8) : factor);
  }
  return factors;
}

}  // namespace

TEST_CASE("a step on a ReLU network is a gradient step on the values of its basis paths") {
  for (const Sizes& sizes : relu_sizes()) {
    ReluProblem problem(sizes, 11);
    const std::vector<long double> gradients = plain_gradients(problem);
    const std::vector<double> before = problem.values(problem.weights);
    std::vector<Matrix<double>> moved = problem.weights;
    const double rate = 1e-2 / (1 + size_of(gradients));
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
      const double rate = 1e-2 / (1 + size_of(plain_gradients(problem)));
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
      step<double>(options, problem.basis, {views(one), const_views(same)}, 1);
  step<double>(options, problem.basis, {views(more), const_views(same)}, 3);
  const ReluStepSummary narrow =
      step<float>(options, problem.basis, {views(single), const_views(gradients)}, 2);
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
      StepOptions options = with_rate(20 / (1 + size_of(gradients)));
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

TEST_CASE("gradients that no loss of the output has are seen") {
  ReluProblem problem({3, 4, 2}, 16);
  std::vector<Matrix<double>> gradients = problem.loss.gradients(problem.weights);
  gradients[0](0, 1) += 1;
  std::vector<Matrix<double>> weights = problem.weights;
  const ReluStepSummary summary =
      step<double>(with_rate(1e-6), problem.basis, {views(weights), const_views(gradients)}, 1);
  CHECK(summary.inconsistency > 1e-3);
}
