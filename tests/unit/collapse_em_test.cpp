#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attnkit/error.hpp"
#include "collapse/expectation_maximisation.hpp"
#include "guarded.hpp"
#include "random_problem.hpp"
#include "score/mixture_energy.hpp"

using namespace attn;
using namespace attn::testing;
using collapse::em_step;
using collapse::EmOptions;
using collapse::EmStep;
using collapse::Priors;

namespace {

struct Fitting {
  Guarded<double> points;
  Mixture mixture;

  MatrixView<const double> view() const { return points.view(); }
};

Fitting random_problem(Random& random, Index count, Index components, Index dimension,
                       double spread, double offset) {
  Fitting problem{Guarded<double>(count, dimension), {}};
  std::normal_distribution<double> normal;
  problem.points.fill([&] { return offset + spread * normal(random); });
  Mixture& mixture = problem.mixture;
  mixture = Mixture(components, dimension);
  for (double& value : mixture.centre) value = offset + spread * normal(random);
  double sum = 0;
  for (double& log : mixture.log_prior) {
    log = normal(random);
    sum += std::exp(log);
  }
  for (double& log : mixture.log_prior) log -= std::log(sum);
  mixture.variance.assign(1, std::exp(0.5 * normal(random)));
  return problem;
}

// Gives each component a variance of its own.
void set_own_variances(Mixture& mixture, Random& random) {
  std::normal_distribution<double> normal;
  mixture.variance.resize(static_cast<std::size_t>(mixture.components));
  for (double& variance : mixture.variance) variance = std::exp(0.5 * normal(random));
}

Mixture copy_of(const Mixture& from) {
  Mixture to(from.components, from.dimension);
  std::copy(from.centre.begin(), from.centre.end(), to.centre.begin());
  to.log_prior = from.log_prior;
  to.variance = from.variance;
  return to;
}

struct Expected {
  long double log_likelihood = 0;
  reference::Matrix centre;
  std::vector<long double> prior;
  long double variance = 0;                ///< one for all
  std::vector<long double> own_variances;  ///< of each component
};

long double squared(MatrixView<const double> points, Index j, const reference::Matrix& q, Index i) {
  long double sum = 0;
  for (Index c = 0; c < points.cols; ++c) {
    const long double off = points(j, c) - q(i, c);
    sum += off * off;
  }
  return sum;
}

// The formulas of MATHEMATICS.md §2 by plain loops.
Expected expected_step(MatrixView<const double> points, const Mixture& from) {
  const Index m = from.components, n = points.rows, d = points.cols;
  reference::Matrix q(m, d);
  std::copy(from.centre.begin(), from.centre.end(), q.values.begin());
  reference::Matrix share(m, n);
  Expected expected;
  expected.centre = reference::Matrix(m, d);
  const auto variance_of = [&](Index i) -> long double {
    return from.variance[from.variance.size() > 1 ? static_cast<std::size_t>(i) : 0];
  };
  const auto half_depth = 0.5L * static_cast<long double>(d);
  for (Index j = 0; j < n; ++j) {
    long double most = -HUGE_VALL;
    for (Index i = 0; i < m; ++i) {
      share(i, j) = from.log_prior[static_cast<std::size_t>(i)] -
                    squared(points, j, q, i) / (2 * variance_of(i)) -
                    half_depth * std::log(2 * std::numbers::pi_v<long double> * variance_of(i));
      most = std::max(most, share(i, j));
    }
    long double sum = 0;
    for (Index i = 0; i < m; ++i) sum += std::exp(share(i, j) - most);
    for (Index i = 0; i < m; ++i) share(i, j) = std::exp(share(i, j) - most) / sum;
    expected.log_likelihood += most + std::log(sum);
  }
  for (Index i = 0; i < m; ++i) {
    long double mass = 0;
    for (Index j = 0; j < n; ++j) {
      mass += share(i, j);
      for (Index c = 0; c < d; ++c) expected.centre(i, c) += share(i, j) * points(j, c);
    }
    for (Index c = 0; c < d; ++c) expected.centre(i, c) /= mass;
    expected.prior.push_back(mass / static_cast<long double>(n));
  }
  for (Index i = 0; i < m; ++i) {
    long double sum = 0;
    for (Index j = 0; j < n; ++j) sum += share(i, j) * squared(points, j, expected.centre, i);
    expected.variance += sum;
    expected.own_variances.push_back(
        sum / (static_cast<long double>(n * d) * expected.prior[static_cast<std::size_t>(i)]));
  }
  expected.variance /= static_cast<long double>(n * d);
  return expected;
}

}  // namespace

TEST_CASE("scores of components are computed from differences") {
  Random random(87);
  for (const double offset : {0.0, 1e6}) {
    const Fitting problem = random_problem(random, 70, 9, 3, 1, offset);
    const std::vector<double> variance(9, problem.mixture.variance.front());
    const MixtureEnergy<double> energy(problem.mixture.centres(), problem.view(),
                                       problem.mixture.log_prior, variance);
    reference::Matrix q(9, 3);
    std::copy(problem.mixture.centre.begin(), problem.mixture.centre.end(), q.values.begin());
    for (const TileRange range : {TileRange{0, 9, 0, 70}, TileRange{3, 2, 61, 7}}) {
      Guarded<double> out(range.rows, range.cols);
      energy.fill(range, out.view());
      CHECK(out.intact());
      for (Index i = 0; i < range.rows; ++i) {
        for (Index j = 0; j < range.cols; ++j) {
          const long double square = squared(problem.view(), range.col0 + j, q, range.row0 + i);
          const long double prior =
              problem.mixture.log_prior[static_cast<std::size_t>(range.row0 + i)];
          const long double part = square / (2 * problem.mixture.variance.front());
          const double found = out.view()(i, j);
          CHECK(std::abs(found - (prior - part)) <= 2e-15L * (part + std::abs(prior)));
          CHECK(std::abs(found) <= energy.bound());
        }
      }
    }
  }
}

TEST_CASE("a step of EM follows the formulas") {
  Random random(88);
  for (const auto& shape : {std::array<Index, 3>{1, 1, 1},
                            {2, 1, 3},
                            {1, 4, 2},
                            {33, 5, 2},
                            {257, 65, 3},
                            {300, 300, 7}}) {
    const Index n = shape[0], m = shape[1], d = shape[2];
    for (const double offset : {0.0, 1e5}) {
      for (const auto& [priors, own] : {std::pair{Priors::fixed, false},
                                        {Priors::fixed, true},
                                        {Priors::estimated, false},
                                        {Priors::estimated, true},
                                        {Priors::dnas, false}}) {
        // Far from the origin, dnas' priors make shares underflow, even in long double.
        if (priors == Priors::dnas && offset > 0) continue;
        CAPTURE(n);
        CAPTURE(m);
        CAPTURE(offset);
        Fitting problem = random_problem(random, n, m, d, 2, offset);
        if (priors == Priors::dnas) collapse::set_dnas_priors(problem.mixture);
        if (own) set_own_variances(problem.mixture, random);
        EmOptions options;
        options.priors = priors;
        options.estimates_variance = true;
        options.min_variance = 1e-12;
        Mixture to = copy_of(problem.mixture);
        const EmStep step = em_step(problem.view(), problem.mixture, options, to, 2);
        const Expected expected = expected_step(problem.view(), problem.mixture);
        CHECK(std::abs(step.log_likelihood - expected.log_likelihood) <=
              1e-13L * (static_cast<long double>(n) + std::abs(expected.log_likelihood)));
        CHECK(collapse::log_likelihood(problem.view(), problem.mixture, 1) == step.log_likelihood);
        for (Index i = 0; i < m; ++i) {
          for (Index c = 0; c < d; ++c) {
            CHECK(std::abs(to.centre[i * d + c] - expected.centre(i, c)) <= 1e-12 * (10 + offset));
          }
          const double log_prior = to.log_prior[static_cast<std::size_t>(i)];
          const auto was = problem.mixture.log_prior[static_cast<std::size_t>(i)];
          if (priors == Priors::fixed) CHECK(log_prior == was);
          if (priors == Priors::estimated) {
            CHECK(std::abs(log_prior - std::log(expected.prior[static_cast<std::size_t>(i)])) <=
                  1e-12);
          }
        }
        // The mean of a cluster of one point has its rounding error.
        const double rounding = 1e-12 * (10 + offset);
        bool at_floor = false;
        for (std::size_t i = 0; i < to.variance.size(); ++i) {
          const long double variance =
              to.variance.size() > 1 ? expected.own_variances[i] : expected.variance;
          CHECK(std::abs(to.variance[i] - std::max(variance, 1e-12L)) <=
                1e-12L * variance + rounding * rounding);
          at_floor = at_floor || to.variance[i] == 1e-12;
        }
        CHECK(to.variance.size() == (own ? static_cast<std::size_t>(m) : 1));
        CHECK(step.at_floor == at_floor);
        Mixture again = copy_of(problem.mixture);
        const EmStep same = em_step(problem.view(), problem.mixture, options, again, 5);
        CHECK(same.log_likelihood == step.log_likelihood);
        CHECK(again.variance == to.variance);
        CHECK(std::equal(again.centre.begin(), again.centre.end(), to.centre.begin()));
      }
    }
  }
}

TEST_CASE("the likelihood never falls under EM") {
  Random random(89);
  for (int n = 0; n < 30; ++n) {
    for (const Priors priors : {Priors::fixed, Priors::estimated}) {
      for (const auto& [variance, own] :
           {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
        const Index m = random_size(random, 1, 40);
        Fitting problem =
            random_problem(random, random_size(random, 2, 150), m, random_index(random, 1, 4), 3,
                           chance(random, 0.3) ? 1e4 : 0);
        if (own) set_own_variances(problem.mixture, random);
        EmOptions options;
        options.priors = priors;
        options.estimates_variance = variance;
        options.min_variance = 1e-4;
        Mixture now = copy_of(problem.mixture);
        Mixture next = copy_of(problem.mixture);
        double before = -HUGE_VAL;
        for (int step = 0; step < 40; ++step) {
          const EmStep found = em_step(problem.view(), now, options, next, 1);
          CHECK(found.log_likelihood >=
                before - 1e-10 * std::max(1.0, std::abs(found.log_likelihood)));
          before = found.log_likelihood;
          std::swap(now, next);
        }
      }
    }
  }
}

TEST_CASE("with dnas priors the first step equals dnas, and steps are not EM") {
  Random random(90);
  double largest_fall = 0;
  for (int n = 0; n < 20; ++n) {
    const Index d = random_index(random, 1, 4);
    Fitting problem = random_problem(random, 60, n % 2 == 0 ? 60 : 3, d, 1.5, 0);
    Mixture now = copy_of(problem.mixture);
    Mixture next = copy_of(problem.mixture);
    collapse::set_dnas_priors(now);
    EmOptions options;
    options.priors = Priors::dnas;
    double before = -HUGE_VAL;
    for (int step = 0; step < 15; ++step) {
      const EmStep found = em_step(problem.view(), now, options, next, 1);
      Guarded<double> centres(now.components, d, 0);
      const double limit = collapse::dnas_centres(problem.view(), now, centres.view(), 1);
      CHECK(limit <= 1e-11);
      for (Index i = 0; i < now.components; ++i) {
        for (Index c = 0; c < d; ++c) {
          // For points of size at most 10.
          CHECK(std::abs(centres.view()(i, c) - next.centre[i * d + c]) <= 10 * limit);
        }
      }
      largest_fall = std::max(largest_fall, before - found.log_likelihood);
      before = found.log_likelihood;
      std::swap(now, next);
    }
  }
  CHECK(largest_fall > 0.1);
}

TEST_CASE("the variance stops at its floor, and a component may be left without a share") {
  Fitting problem{Guarded<double>(6, 1), {}};
  for (Index j = 0; j < 6; ++j) problem.points.view()(j, 0) = j < 3 ? 1 : -1;
  Mixture& mixture = problem.mixture;
  mixture = Mixture(3, 1);
  mixture.centre[0] = 0.9;
  mixture.centre[1] = -0.9;
  mixture.centre[2] = 100;
  mixture.log_prior.assign(3, -std::log(3.0));
  mixture.variance.assign(1, 0.5);
  EmOptions options;
  options.priors = Priors::estimated;
  options.estimates_variance = true;
  options.min_variance = 1e-3;
  Mixture next = copy_of(mixture);
  bool floored = false;
  for (int step = 0; step < 20; ++step) {
    const EmStep found = em_step(problem.view(), mixture, options, next, 1);
    if (step == 0) CHECK(found.empty == 1);
    floored = floored || found.at_floor;
    CHECK(std::isfinite(found.log_likelihood));
    for (const double value : next.centre) CHECK(std::isfinite(value));
    std::swap(mixture, next);
  }
  CHECK(floored);
  CHECK(mixture.variance.front() == 1e-3);
  CHECK(std::abs(mixture.centre[0] - 1) <= 1e-15);
  CHECK(std::abs(mixture.centre[1] + 1) <= 1e-15);
}

TEST_CASE("equal variances of components are one variance, and own ones end at their floor") {
  Random random(91);
  for (int n = 0; n < 10; ++n) {
    const Index m = random_index(random, 2, 20);
    Fitting problem = random_problem(random, 80, m, 2, 2, 0);
    EmOptions options;
    options.priors = Priors::estimated;
    Mixture shared = copy_of(problem.mixture);
    Mixture own = copy_of(problem.mixture);
    own.variance.assign(static_cast<std::size_t>(m), shared.variance.front());
    Mixture next_shared = copy_of(shared), next_own = copy_of(own);
    const EmStep of_shared = em_step(problem.view(), shared, options, next_shared, 1);
    const EmStep of_own = em_step(problem.view(), own, options, next_own, 1);
    CHECK(std::abs(of_shared.log_likelihood - of_own.log_likelihood) <=
          1e-13 * (80 + std::abs(of_own.log_likelihood)));
    for (Index k = 0; k < own.centre.size(); ++k) {
      CHECK(std::abs(next_shared.centre[k] - next_own.centre[k]) <= 1e-12 * 10);
    }
    options.estimates_variance = true;
    options.min_variance = 0.5;
    const EmStep floored = em_step(problem.view(), own, options, next_own, 1);
    const double least = *std::min_element(next_own.variance.begin(), next_own.variance.end());
    CHECK(least >= 0.5);
    CHECK(floored.at_floor == (least == 0.5));
  }
}

TEST_CASE("a likelihood that exceeds the format is refused") {
  // Each point's term fits the format, their sum does not.
  Fitting problem{Guarded<double>(1000, 1), {}};
  problem.points.fill([] { return 1e153; });
  Mixture& mixture = problem.mixture;
  mixture = Mixture(1, 1);
  mixture.centre[0] = 0;
  mixture.variance[0] = 1;
  Mixture to = copy_of(mixture);
  CHECK_THROWS_AS(em_step(problem.view(), mixture, {}, to, 1), Error);
  CHECK_THROWS_AS(collapse::log_likelihood(problem.view(), mixture, 1), Error);
}
