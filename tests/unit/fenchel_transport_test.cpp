#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "dual_problem.hpp"
#include "fenchel/closed_forms.hpp"
#include "infinity.hpp"
#include "reference/fenchel_reference.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

double distance(const SolvedDual& found, Index q, const std::vector<long double>& lambda) {
  long double sum = 0;
  for (Index c = 0; c < found.depth; ++c) {
    const long double away = found.lambda(q, c) - lambda[static_cast<std::size_t>(c)];
    sum += away * away;
  }
  return static_cast<double>(std::sqrt(sum));
}

}  // namespace

TEST_CASE("the transport divergence against Newton's method in long double") {
  Random random(421);
  for (const double gamma : {0.05, 1.0, 20.0}) {
    for (const double alpha : {0.01, 1.0, 50.0}) {
      for (const auto& [n, d] :
           {std::pair<Index, Index>{1, 1}, {1, 3}, {7, 2}, {25, 9}, {12, 30}, {40, 17}}) {
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.queries = 3;
        shape.alpha = alpha;
        shape.gamma = gamma;
        shape.zeros = true;
        shape.by_query = n == 25;
        const OwnedDual owned(shape, random);
        DualOptions options;
        const SolvedDual found(owned.problem(), options, 2);
        for (Index q = 0; q < owned.queries(); ++q) {
          const DualSummary& summary = found.summaries[static_cast<std::size_t>(q)];
          if (owned.is_empty(q)) {
            CHECK(summary.status == DualStatus::empty);
            continue;
          }
          CAPTURE(gamma);
          CAPTURE(alpha);
          CAPTURE(shape.count);
          CAPTURE(shape.depth);
          const reference::Dual exact = reference::solve_dual(owned.problem(), q);
          CHECK(summary.status == DualStatus::converged);
          CHECK(distance(found, q, exact.lambda) <= 1e-9);
          const auto size = static_cast<double>(1 + std::abs(exact.primal));
          CHECK(std::abs(summary.primal - static_cast<double>(exact.primal)) <= 1e-9 * size);
          CHECK(std::abs(summary.dual - static_cast<double>(exact.dual)) <= 1e-9 * size);
          CHECK(summary.gap <= 1e-10 * (1 + std::abs(summary.primal)));
          // n sums of n rounded terms, and logits of d.
          CHECK(summary.certificate_error <= 64 + 4 * (n + d));
          double sum = 0;
          for (Index i = 0; i < n; ++i) sum += found.p(q, i);
          CHECK(std::abs(sum - 1) <= 1e-13);
        }
      }
    }
  }
}

TEST_CASE("groups with free transport inside and none outside keep their weight") {
  // Within a group all templates have the same product with z.
  const double templates[] = {1, 0, 1, 3, 1, -2, -2, 1, -2, 7};
  const double evidence[] = {0.75, 0};
  const double preference[] = {0.125, 0, 0.25, 0.5, 0.125};
  std::vector<double> cost;
  for (Index t = 0; t < 5; ++t) {
    for (Index i = 0; i < 5; ++i) cost.push_back((t < 3) == (i < 3) ? 0 : infinity);
  }
  for (const double alpha : {0.01, 1.0, 40.0}) {
    DualProblem problem;
    problem.templates = {templates, 5, 2};
    problem.evidence = {evidence, 1, 2};
    problem.preference = {preference, 1, 5};
    problem.alpha = alpha;
    problem.transport = TransportCost{{cost.data(), 5, 5}, 0.5};
    const SolvedDual found(problem, {});
    CHECK(found.summaries.front().status == DualStatus::converged);
    // Exact, except for the rounding of means of numbers up to 7.
    CHECK(std::abs(found.lambda(0, 0) - alpha * 0.75) <= alpha * 1e-14);
    CHECK(std::abs(found.lambda(0, 1)) <= alpha * 1e-14);
    for (Index i = 0; i < 5; ++i) {
      CHECK(std::abs(found.p(0, i) - (i < 3 ? 0.375 / 3 : 0.625 / 2)) <= 1e-14);
    }
  }
}

TEST_CASE("the distance between sources does not increase the number of steps") {
  // The covariance of their mixture is much larger than the curvature of the dual along a step.
  for (unsigned seed = 425; seed < 431; ++seed) {
    Random random(seed);
    DualShape shape;
    shape.count = 40;
    shape.depth = 17;
    shape.alpha = 170;
    shape.norm = 20;
    shape.decades = 0;
    shape.gamma = 0.05;
    OwnedDual owned(shape, random);
    for (double& value : owned.evidence_) value *= 5e-4;
    for (Index i = 0; i < 40; ++i) {
      double* t = owned.templates_.data() + i * 17;
      const double norm = std::sqrt(std::inner_product(t, t + 17, t, 0.0));
      for (Index c = 0; c < 17; ++c) t[c] *= shape.norm / norm;
    }
    for (Index at = 0; at < shape.count * shape.count; ++at) {
      const double cost = std::generate_canonical<double, 53>(random);
      const bool forbidden = chance(random, 0.4);
      owned.cost_[static_cast<std::size_t>(at)] = at % 41 == 0 ? 0 : (forbidden ? infinity : cost);
    }
    CAPTURE(seed);
    const DualSummary summary = SolvedDual(owned.problem(), {}).summaries.front();
    CHECK(summary.status == DualStatus::converged);
    CHECK(summary.iterations <= 40);
  }
}

TEST_CASE("as gamma falls staying becomes cheapest, and p at lambda = 0 becomes u") {
  Random random(422);
  DualShape shape;
  shape.count = 9;
  shape.depth = 4;
  shape.gamma = 1;
  shape.alpha = 1e-9;
  const OwnedDual owned(shape, random);
  double total = 0;
  for (Index i = 0; i < 9; ++i) total += owned.preference_of(0, i);
  double before = infinity;
  for (const double gamma : {0.5, 0.1, 0.02, 0.004}) {
    DualProblem problem = owned.problem();
    problem.transport->gamma = gamma;
    // Staying costs nothing, moving at least 0.1.
    std::vector<double> cost = owned.cost_;
    for (Index t = 0; t < 9; ++t) {
      for (Index i = 0; i < 9; ++i) {
        double& value = cost[static_cast<std::size_t>(t * 9 + i)];
        value = t == i ? 0 : std::max(value, 0.1);
      }
    }
    problem.transport->cost.data = cost.data();
    const SolvedDual found(problem, {});
    CHECK(found.summaries.front().status == DualStatus::converged);
    double away = 0;
    for (Index i = 0; i < 9; ++i) {
      away = std::max(away, std::abs(found.p(0, i) - owned.preference_of(0, i) / total));
    }
    CHECK(away < before);
    before = away;
  }
  CHECK(before <= 8 * std::exp(-0.1 / 0.004) + 1e-8);
}

TEST_CASE("the closed form of transport has an error of order alpha^2") {
  Random random(423);
  DualShape shape;
  shape.count = 20;
  shape.depth = 6;
  shape.gamma = 2;
  shape.norm = 1;
  const OwnedDual owned(shape, random);
  std::vector<double> errors;
  for (const double alpha : {1e-2, 1e-3}) {
    DualProblem problem = owned.problem();
    problem.alpha = alpha;
    DualOptions options;
    options.tolerance = 1e-18;
    const SolvedDual found(problem, options);
    errors.push_back(0);
    for (Index c = 0; c < 6; ++c) {
      errors.back() += std::pow(found.lambda(0, c) - alpha * problem.evidence(0, c), 2);
    }
  }
  const double slope = std::log10(std::sqrt(errors[0] / errors[1]));
  CHECK(std::abs(slope - 2) <= 0.1);
}

TEST_CASE("invalid costs are refused") {
  const double templates[] = {1, 2};
  const double evidence[] = {1};
  const double preference[] = {1, 1};
  const auto attempt = [&](std::vector<double> cost, double gamma) {
    DualProblem problem;
    problem.templates = {templates, 2, 1};
    problem.evidence = {evidence, 1, 1};
    problem.preference = {preference, 1, 2};
    problem.transport = TransportCost{{cost.data(), 2, static_cast<Index>(cost.size()) / 2}, gamma};
    return thrown_error([&] { SolvedDual(problem, {}); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(attempt({0, 1, -1, 0}, 1).failure() == Failure::input);
  CHECK(attempt({0, nan, 1, 0}, 1).failure() == Failure::input);
  CHECK(attempt({0, 1}, 1).failure() == Failure::input);
  CHECK(attempt({0, 1, 1e300, 0}, 1e-300).failure() == Failure::numerical);
  // The second source has no allowed target.
  CHECK(attempt({0, infinity, 1, infinity}, 1).failure() == Failure::numerical);
}
