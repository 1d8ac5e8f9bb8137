#include "sinkhorn/exact_transport.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "infinity.hpp"
#include "random_problem.hpp"
#include "same_bits.hpp"
#include "sinkhorn/c_transform.hpp"
#include "thrown_error.hpp"
#include "weights_observer.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
Problem<T> problem_of(Index queries, Index keys, bool mask, Random& random) {
  ProblemOptions sizes;
  sizes.queries = queries;
  sizes.keys = keys;
  sizes.depth = 3;
  sizes.mask = mask;
  return Problem<T>(sizes, random);
}

template <class T>
std::vector<T> all_scores(const Scores<T>& scores) {
  std::vector<T> values(static_cast<std::size_t>(scores.rows() * scores.cols()));
  typename Scores<T>::Scratch scratch;
  scores.fill({0, scores.rows(), 0, scores.cols()}, {values.data(), scores.rows(), scores.cols()},
              scratch);
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("c-transforms and ranges of scores against plain loops", T, float, double) {
  Random random(31);
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {33, 7}, {5, 2049}, {65, 40}}) {
    for (const bool mask : {false, true}) {
      const Problem<T> problem = problem_of<T>(m, n, mask, random);
      const Scores<T>& scores = problem.scores();
      const std::vector<T> s = all_scores(scores);
      std::normal_distribution<double> normal;
      std::vector<double> g, f(static_cast<std::size_t>(m)), again(static_cast<std::size_t>(m));
      for (Index j = 0; j < n; ++j) g.push_back(j == 3 ? -infinity : normal(random));
      std::vector<double> a(static_cast<std::size_t>(m), 1), b(static_cast<std::size_t>(n), 1);
      if (m > 4) a[4] = 0;
      if (n > 2) b[2] = 0;
      c_transform<T>(scores, g, f, 1);
      c_transform<T>(scores, g, again, 3);
      CHECK(same_bits(f.data(), again.data(), m));
      double least = infinity;
      double largest = -infinity;
      for (std::size_t i = 0; i < f.size(); ++i) {
        double want = -infinity;
        for (std::size_t j = 0; j < g.size(); ++j) {
          const auto score = static_cast<double>(s[i * g.size() + j]);
          if (!std::isinf(g[j])) want = std::max(want, score - g[j]);
          if (a[i] == 0 || b[j] == 0) continue;
          least = std::min(least, score);
          largest = std::max(largest, score);
        }
        // The kernel may round the difference to T.
        const double rounding = sizeof(T) == 4 ? 1e-6 : 1e-15;
        CHECK((f[i] == want || std::abs(f[i] - want) <= rounding * (1 + std::abs(want))));
      }
      const ScoreRange range = score_range<T>(scores, a, b, 3);
      CHECK(range.least == least);
      CHECK(range.largest == largest);
    }
  }
}

namespace {

template <class T>
void check_bounds(ExactMethod method) {
  Random random(32);
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {1, 9}, {33, 20}, {40, 65}}) {
    const Problem<T> problem = problem_of<T>(m, n, false, random);
    const Scores<T>& scores = problem.scores();
    const std::vector<T> s = all_scores(scores);
    std::uniform_real_distribution<double> uniform(0.5, 2);
    Marginals marginals;
    for (Index i = 0; i < m; ++i) marginals.row.push_back(uniform(random));
    for (Index j = 0; j < n; ++j) marginals.col.push_back(uniform(random));
    const double ratio =
        marginals.total() / std::accumulate(marginals.col.begin(), marginals.col.end(), 0.0);
    for (double& value : marginals.col) value *= ratio;
    ExactOptions options;
    options.gap = 1e-3;
    options.method = method;
    KeepWeights<T> plan;
    const ExactSolution found = solve_exact<T>(scores, marginals, options, {&plan}, 2);
    KeepWeights<T> again;
    const ExactSolution alone = solve_exact<T>(scores, marginals, options, {&again}, 1);
    CHECK(same_bits(plan.values, again.values));
    CHECK(same_bits(found.potentials.row, alone.potentials.row));
    CHECK(found.summary.status == SolveStatus::converged);
    const double rounding = sizeof(T) == sizeof(float) ? 2e-5 : 1e-10;
    double value = 0;
    std::vector<double> row(marginals.row.size()), col(marginals.col.size());
    double least_slack = infinity;
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = 0; j < col.size(); ++j) {
        const auto mass = static_cast<double>(plan.values[i * col.size() + j]);
        const auto score = static_cast<double>(s[i * col.size() + j]);
        CHECK(mass >= 0);
        row[i] += mass;
        col[j] += mass;
        value -= mass * score;
        least_slack =
            std::min(least_slack, found.potentials.row[i] + found.potentials.col[j] - score);
      }
    }
    double lower = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      CHECK(row[i] == doctest::Approx(marginals.row[i]).epsilon(rounding));
      lower -= marginals.row[i] * found.potentials.row[i];
    }
    for (std::size_t j = 0; j < col.size(); ++j) {
      CHECK(col[j] == doctest::Approx(marginals.col[j]).epsilon(rounding));
      lower -= marginals.col[j] * found.potentials.col[j];
    }
    const double size = 10 * marginals.total();  // about the largest scores
    CHECK(least_slack >= -rounding * 10);
    CHECK(std::abs(found.summary.value - value) <= rounding * size);
    CHECK(std::abs(found.summary.lower - lower) <= rounding * size);
    CHECK(found.summary.value - found.summary.lower <=
          options.gap * std::abs(found.summary.value) + rounding * size);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("exact transport bounds its value, and shows a plan with its marginals", T,
                   float, double) {
  check_bounds<T>(ExactMethod::simplex);
  check_bounds<T>(ExactMethod::annealing);
  Random random(33);
  const Problem<T> masked = problem_of<T>(9, 9, true, random);
  const Marginals ones{PooledVector<double>(9, 1.0), PooledVector<double>(9, 1.0)};
  ExactOptions options;
  options.method = ExactMethod::annealing;
  const Error error = thrown_error([&] { solve_exact<T>(masked.scores(), ones, options, {}, 1); });
  CHECK(error.failure() == Failure::input);
}
