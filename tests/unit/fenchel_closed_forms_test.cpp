#include "fenchel/closed_forms.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "dual_problem.hpp"
#include "tensor/random.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

double away(const double* a, const double* b, Index n) {
  double sum = 0;
  for (Index c = 0; c < n; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

// The order in α of the errors of both closed forms: slopes over α from 1e-4 to 1e-2.
std::pair<double, double> slopes(const OwnedDual& owned) {
  const Index d = owned.depth();
  std::vector<double> sizes;
  std::vector<double> first;
  std::vector<double> second;
  for (const double alpha : {1e-4, 1e-3, 1e-2}) {
    DualProblem problem = owned.problem();
    problem.alpha = alpha;
    DualOptions options;
    options.tolerance = 1e-20;
    const SolvedDual found(problem, options);
    std::vector<double> h1(static_cast<std::size_t>(d)), h2(h1.size());
    closed_forms(problem, std::vector{alpha}, 1, {{h1.data(), 1, d}, {}, {h2.data(), 1, d}});
    sizes.push_back(std::log(alpha));
    first.push_back(std::log(away(h1.data(), found.hs.data(), d)));
    second.push_back(std::log(away(h2.data(), found.hs.data(), d)));
  }
  const auto slope = [&](const std::vector<double>& y) {
    return (y.back() - y.front()) / (sizes.back() - sizes.front());
  };
  return {slope(first), slope(second)};
}

}  // namespace

TEST_CASE(
    "errors fall as the square and the cube of alpha, for symmetric templates as its fourth") {
  Random random(431);
  for (const auto& [n, d] : {std::pair<Index, Index>{40, 3}, {10, 14}}) {
    DualShape shape;
    shape.count = n;
    shape.depth = d;
    shape.norm = 4;
    const OwnedDual skewed(shape, random);
    const auto [first, second] = slopes(skewed);
    CHECK(std::abs(first - 2) <= 0.1);
    CHECK(std::abs(second - 3) <= 0.1);
    OwnedDual symmetric(shape, random);
    for (Index i = 0; i < n / 2; ++i) {
      for (Index c = 0; c < d; ++c) {
        symmetric.templates_[static_cast<std::size_t>((i + n / 2) * d + c)] =
            -symmetric.templates_[static_cast<std::size_t>(i * d + c)];
      }
      symmetric.preference_[static_cast<std::size_t>(i + n / 2)] =
          symmetric.preference_[static_cast<std::size_t>(i)];
    }
    const auto [even_first, even_second] = slopes(symmetric);
    CHECK(std::abs(even_first - 2) <= 0.1);
    CHECK(std::abs(even_second - 4) <= 0.1);
  }
}

TEST_CASE("the first order is attention, the second Newton's first step from 0") {
  Random random(432);
  for (const double gamma : {0.0, 0.7}) {
    for (const bool by_query : {false, true}) {
      for (const auto& [n, d] : {std::pair<Index, Index>{11, 5}, {5, 11}, {1, 1}}) {
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.queries = 7;
        shape.by_query = by_query;
        shape.zeros = true;
        shape.gamma = gamma;
        const OwnedDual owned(shape, random);
        const auto size = static_cast<std::size_t>(7 * d);
        std::vector<double> h1(size, SolvedDual::missing), h2(h1), again(h1);
        const std::vector<double> alphas(7, owned.problem().alpha);
        closed_forms(owned.problem(), alphas, 1, {{h1.data(), 7, d}, {}, {h2.data(), 7, d}});
        closed_forms(owned.problem(), alphas, 3, {{}, {}, {again.data(), 7, d}});
        CHECK(h2 == again);
        for (Index q = 0; q < 7; ++q) {
          const double* h = h1.data() + q * d;
          if (owned.is_empty(q)) {
            for (Index c = 0; c < d; ++c)
              CHECK((h[c] == 0 && h2[static_cast<std::size_t>(q * d + c)] == 0));
            continue;
          }
          if (gamma > 0) continue;
          // By the definition.
          double total = 0;
          std::vector<double> mean(static_cast<std::size_t>(d), 0.0);
          for (Index i = 0; i < n; ++i) {
            double logit = 0;
            for (Index c = 0; c < d; ++c) {
              logit += owned.problem().templates(i, c) * owned.problem().evidence(q, c);
            }
            const double weight = owned.preference_of(q, i) * std::exp(logit);
            total += weight;
            for (Index c = 0; c < d; ++c) {
              mean[static_cast<std::size_t>(c)] += weight * owned.problem().templates(i, c);
            }
          }
          for (Index c = 0; c < d; ++c) {
            CHECK(std::abs(h[c] - mean[static_cast<std::size_t>(c)] / total) <= 1e-13);
          }
        }
      }
    }
  }
}

TEST_CASE("queries with an alpha of their own have the forms of one query with that alpha") {
  Random random(433);
  const std::vector<double> alphas = {0.5, 0, 0.5, 2, 1e-3, 2, 40};
  for (const double gamma : {0.0, 0.7}) {
    for (const bool by_query : {false, true}) {
      for (const auto& [n, d] : {std::pair<Index, Index>{11, 5}, {5, 11}}) {
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.queries = 7;
        shape.by_query = by_query;
        shape.gamma = gamma;
        const OwnedDual owned(shape, random);
        const auto size = static_cast<std::size_t>(d);
        std::vector<double> h1(7 * size), h2(h1), one1(size), one2(size);
        closed_forms(owned.problem(), alphas, 2, {{h1.data(), 7, d}, {}, {h2.data(), 7, d}});
        for (Index q = 0; q < 7; ++q) {
          DualProblem one = owned.problem();
          one.evidence = one.evidence.row_range(q, 1);
          if (by_query) one.preference = one.preference.row_range(q, 1);
          const double alpha = alphas[static_cast<std::size_t>(q)];
          closed_forms(one, std::vector{alpha}, 1, {{one1.data(), 1, d}, {}, {one2.data(), 1, d}});
          const auto at = static_cast<std::ptrdiff_t>(q * d);
          CHECK(std::equal(one1.begin(), one1.end(), h1.begin() + at));
          CHECK(std::equal(one2.begin(), one2.end(), h2.begin() + at));
        }
      }
    }
  }
}

TEST_CASE("a Gaussian preference has its closed form, to the error of sampling") {
  const double mean[] = {0.3, -0.7};
  const double evidence[] = {0.6, 0.8};
  for (const Index n : {10000, 1000000}) {
    std::vector<double> templates(static_cast<std::size_t>(2 * n));
    RandomStream(7, "templates").normal(0, 2 * n, templates.data());
    for (Index i = 0; i < 2 * n; ++i) templates[static_cast<std::size_t>(i)] += mean[i % 2];
    const std::vector<double> preference(static_cast<std::size_t>(n), 1.0);
    for (const double alpha : {0.1, 1.0}) {
      DualProblem problem;
      problem.templates = {templates.data(), n, 2};
      problem.evidence = {evidence, 1, 2};
      problem.preference = {preference.data(), 1, n};
      problem.alpha = alpha;
      double lambda[2];
      const auto summaries = solve_dual(problem, {}, 1, {{lambda, 1, 2}});
      CHECK(summaries.front().status == DualStatus::converged);
      // Means of n templates of variance 1 under weights exp⟨t,λ⟩: 4 standard errors of each.
      const double error = 4 * std::exp(0.5) * alpha / std::sqrt(static_cast<double>(n));
      for (Index c = 0; c < 2; ++c) {
        CHECK(std::abs(lambda[c] - alpha / (1 + alpha) * evidence[c]) <= error);
      }
    }
  }
}

TEST_CASE("relative deviations") {
  const double z[] = {3, 4};
  const double lambda[] = {6, 8};
  const double zero[] = {0, 0};
  CHECK(relative_deviation(lambda, z, 2, 1) == doctest::Approx(0.5));
  CHECK(relative_deviation(lambda, z, 2, 2) == 0);
  CHECK(relative_deviation(zero, zero, 2, 1) == 0);
  CHECK(std::isinf(relative_deviation(zero, z, 2, 1)));
  for (const double size : {1e200, 1e-170, 1e-310}) {
    const double far[] = {3 * size, 4 * size};
    const double exact[] = {6 * size, 8 * size};
    CHECK(relative_deviation(exact, far, 2, 1) == doctest::Approx(0.5));
    CHECK(relative_deviation(far, zero, 2, 1) == doctest::Approx(1));
  }
}
