#include "sinkhorn/sinkhorn_solver.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "feasibility/tree_gap.hpp"
#include "log_sum.hpp"
#include "long_run.hpp"
#include "random_problem.hpp"
#include "scheme_check.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Scores in memory, as the library takes them and as the reference does.
template <class T>
struct Ready {
  Index rows, cols;
  std::vector<T> values;
  std::unique_ptr<BroadcastMatrix<T>> source;
  std::unique_ptr<Energy<T>> energy;
  std::optional<Scores<T>> scores;

  Ready(Index m, Index n, std::vector<T> s) : rows(m), cols(n), values(std::move(s)) {
    double bound = 0;
    for (const T x : values) {
      if (!std::isinf(x)) bound = std::max(bound, std::abs(static_cast<double>(x)));
    }
    source = std::make_unique<BroadcastMatrix<T>>(values.data(), n, 1, bound);
    energy = make_stored_energy<T>(*source, m, n, 1);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    scores.emplace(terms);
  }
  long double at(std::size_t i, std::size_t j) const {
    return values[i * static_cast<std::size_t>(cols) + j];
  }
};

// −|x − y|²/ε for points in the plane with largest distance 1.
template <class T>
Ready<T> plane(Index m, Index n, double epsilon, Random& random) {
  std::normal_distribution<double> normal;
  std::vector<double> x, y;
  for (Index i = 0; i < 2 * m; ++i) x.push_back(normal(random));
  for (Index j = 0; j < 2 * n; ++j) y.push_back(normal(random) + 1);
  std::vector<double> cost;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    for (std::size_t j = 0; j < y.size(); j += 2) {
      cost.push_back(std::pow(x[i] - y[j], 2) + std::pow(x[i + 1] - y[j + 1], 2));
    }
  }
  const double largest = *std::max_element(cost.begin(), cost.end());
  std::vector<T> s;
  for (const double c : cost) s.push_back(static_cast<T>(-c / largest / epsilon));
  return Ready<T>(m, n, std::move(s));
}

Marginals uniform(Index m, Index n) {
  return {std::vector<double>(static_cast<std::size_t>(m), 1.0 / static_cast<double>(m)),
          std::vector<double>(static_cast<std::size_t>(n), 1.0 / static_cast<double>(n))};
}

Marginals random_marginals(Index m, Index n, double range, Random& random) {
  std::uniform_real_distribution<double> log(-range, range);
  Marginals marginals;
  const auto fill = [&](PooledVector<double>& values, Index size) {
    double total = 0;
    for (Index i = 0; i < size; ++i) values.push_back(std::exp(log(random)));
    if (size > 3) values[1] = 0;  // a masked row or column
    for (const double x : values) total += x;
    for (double& x : values) x /= total;
  };
  fill(marginals.row, m);
  fill(marginals.col, n);
  return marginals;
}

struct Want {
  Vector f, g;
  long double value = 0;  // −⟨π, s⟩ + Σ π (log π − 1)
  long double dual = 0;
  long double score = 0;
  long double error = 0;
};

// By the formulas.
template <class T>
Want iterate(const Ready<T>& problem, const Marginals& marginals, Index iterations) {
  const auto m = static_cast<std::size_t>(problem.rows);
  const auto n = static_cast<std::size_t>(problem.cols);
  Want want{Vector(m, 0), Vector(n, 0)};
  for (std::size_t i = 0; i < m; ++i) {
    if (marginals.row[i] == 0) want.f[i] = nothing;
  }
  for (Index t = 0; t < iterations; ++t) {
    for (std::size_t j = 0; j < n; ++j) {
      Vector terms;
      for (std::size_t i = 0; i < m; ++i) {
        if (want.f[i] != nothing) terms.push_back(problem.at(i, j) - want.f[i]);
      }
      const long double sum = log_sum(terms);
      const long double b = marginals.col[j];
      want.g[j] = sum == nothing || b == 0 ? nothing : sum - std::log(b);
    }
    for (std::size_t i = 0; i < m; ++i) {
      Vector terms;
      for (std::size_t j = 0; j < n; ++j) {
        if (want.g[j] != nothing) terms.push_back(problem.at(i, j) - want.g[j]);
      }
      const long double sum = log_sum(terms);
      const long double a = marginals.row[i];
      want.f[i] = sum == nothing || a == 0 ? nothing : sum - std::log(a);
    }
  }
  Vector r(m, 0), c(n, 0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (want.f[i] == nothing || want.g[j] == nothing) continue;
      const long double log = problem.at(i, j) - want.g[j] - want.f[i];
      const long double weight = std::exp(log);
      if (weight == 0) continue;
      want.score += weight * problem.at(i, j);
      want.value += weight * (log - 1) - weight * problem.at(i, j);
      want.dual -= weight;
      r[i] += weight;
      c[j] += weight;
    }
  }
  for (std::size_t i = 0; i < m; ++i) {
    if (want.f[i] != nothing) want.dual -= marginals.row[i] * want.f[i];
    want.error += std::abs(r[i] - marginals.row[i]);
  }
  for (std::size_t j = 0; j < n; ++j) {
    if (want.g[j] != nothing) want.dual -= marginals.col[j] * want.g[j];
    want.error += std::abs(c[j] - marginals.col[j]);
  }
  return want;
}

template <class T>
double largest_of(const Ready<T>& problem) {
  return problem.scores->magnitude();
}

template <class T>
SinkhornSolution solve(const Ready<T>& problem, const Marginals& marginals,
                       const SinkhornOptions& options, int threads = 2,
                       const std::vector<Observer<T>*>& observers = {}) {
  return solve_sinkhorn<T>(*problem.scores, marginals, options, observers, threads);
}

}  // namespace

TEST_CASE_TEMPLATE("a fixed number of iterations agrees with the reference", T, float, double) {
  Random random(301);
  // Scores of all sizes: plain exp(s), kernels that absorb potentials and, in float64, the range
  // between.
  for (const double epsilon : {0.5, 0.05, 0.02, 0.005, 0.001, 0.0001}) {
    for (const Index m : {1, 2, 49, 97}) {
      for (const Index n : {1, 3, 257}) {
        CAPTURE(epsilon);
        CAPTURE(m);
        CAPTURE(n);
        const auto problem = plane<T>(m, n, epsilon, random);
        const Marginals marginals = random_marginals(m, n, 1, random);
        SinkhornOptions options;
        options.stopping.iterations = 12;
        options.tuning.kept_bytes = chance(random, 0.5) ? 1 << 20 : 0;
        const auto got = solve(problem, marginals, options);
        const auto want = iterate(problem, marginals, 12);
        // The rounding errors of all iterations add up in the potentials.
        const double bound = 4 * 12 * tolerance<T>(largest_of(problem));
        check_potentials(got.potentials.row, want.f, bound);
        check_potentials(got.potentials.col, want.g, bound);
        CHECK(got.summary.iterations == 12);
        CHECK(got.summary.status == SolveStatus::done);
        CHECK(got.errors.size() == 12);
        // Sums of weights with total 1 that carry that error, times scores of this size.
        const double size = 1 + 2 * largest_of(problem);
        CHECK(std::abs(got.summary.score - static_cast<double>(want.score)) <= bound * size);
        CHECK(std::abs(got.summary.primal - static_cast<double>(want.value)) <= bound * size);
        CHECK(std::abs(got.summary.dual - static_cast<double>(want.dual)) <= bound * size);
        const double error = got.summary.row_error + got.summary.col_error;
        CHECK(std::abs(error - static_cast<double>(want.error)) <= 2 * bound);
        CHECK(std::abs(got.errors.back() - static_cast<double>(want.error)) <= 2 * bound);
      }
    }
  }
}

TEST_CASE("a plan within the requested tolerance, and its certificate") {
  Random random(302);
  for (const double epsilon : {1.0, 0.1, 0.02}) {
    for (const Index n : {1, 7, 60}) {
      CAPTURE(epsilon);
      CAPTURE(n);
      const auto problem = plane<double>(50, n, epsilon, random);
      const Marginals marginals = random_marginals(50, n, 0.5, random);
      SinkhornOptions options;
      options.stopping.tolerance = 1e-9;
      options.stopping.iterations = 20000;
      options.tuning.kept_bytes = 1 << 20;
      const auto got = solve(problem, marginals, options);
      CHECK(got.summary.status == SolveStatus::converged);
      // The rounding of potentials of this size.
      const double rounding = largest_of(problem) * 1e-15;
      CHECK(got.summary.row_error + got.summary.col_error <= 1e-9 + rounding);
      const auto best = iterate(problem, marginals, 2 * got.summary.iterations + 50);
      const double slack = 1e-14 * (1 + largest_of(problem));
      CHECK(got.summary.gap >= 0);
      CHECK(got.summary.dual <= static_cast<double>(best.dual) + slack);
      CHECK(got.summary.dual + got.summary.gap >= static_cast<double>(best.dual) - slack);
      // E is at most the tolerance, and no exponent is larger than a few times the scores.
      CHECK(got.summary.gap <= 1e-9 * 4 * (20 + largest_of(problem)));
    }
  }
}

TEST_CASE("the gap is a bound even for a plan far from its marginals") {
  Random random(303);
  for (const Index iterations : {1, 2, 5}) {
    const auto problem = plane<double>(40, 30, 0.02, random);
    const Marginals marginals = random_marginals(40, 30, 1, random);
    SinkhornOptions options;
    options.stopping.iterations = iterations;
    const auto got = solve(problem, marginals, options);
    const auto best = iterate(problem, marginals, 4000);
    REQUIRE(best.error < 1e-6);
    CHECK(got.summary.dual <= static_cast<double>(best.dual));
    CHECK(got.summary.dual + got.summary.gap >= static_cast<double>(best.dual));
  }
}

TEST_CASE("with forbidden pairs the gap is computed along trees") {
  Random random(304);
  std::uniform_real_distribution<double> chance;
  for (const Index n : {5, 13, 97}) {
    for (const double share : {0.1, 0.6}) {
      CAPTURE(n);
      CAPTURE(share);
      // A cycle through all rows and columns; some other pairs are allowed, never all.
      auto dense = plane<double>(n, n, 0.2, random);
      std::vector<double> s = dense.values;
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          const bool kept =
              j == i || j == (i + 1) % n || (j != (i + 2) % n && chance(random) < share);
          if (!kept)
            s[static_cast<std::size_t>(i * n + j)] = -std::numeric_limits<double>::infinity();
        }
      }
      const Ready<double> problem(n, n, s);
      const Marginals marginals = uniform(n, n);
      SinkhornOptions exactly;
      exactly.stopping.tolerance = 1e-13;
      exactly.stopping.iterations = 40000;
      // From below, with an error whose square is negligible.
      const double best = solve(problem, marginals, exactly).summary.dual;
      const double slack = 1e-14 * (1 + largest_of(problem));
      double before = std::numeric_limits<double>::infinity();
      for (const double tolerance : {1e-3, 1e-6, 1e-9}) {
        SinkhornOptions options;
        options.stopping.tolerance = tolerance;
        options.stopping.iterations = 40000;
        const auto got = solve(problem, marginals, options);
        REQUIRE(got.summary.status == SolveStatus::converged);
        CHECK(got.summary.dual <= best + slack);
        CHECK(got.summary.dual + got.summary.gap >= best - slack);
        // The gap is of second order: the tolerance squared over the lightest link, which in a plan
        // of this size and with scores of this size is above 1e-6.
        CHECK(got.summary.gap <= tolerance * tolerance * static_cast<double>(2 * n) * 1e6);
        CHECK(got.summary.gap <= before);
        before = got.summary.gap;
      }
    }
  }
}

TEST_CASE("with forbidden pairs there is a gap in float32, too") {
  Random random(305);
  for (const Index n : {16, 64, 512}) {
    CAPTURE(n);
    std::vector<float> s = plane<float>(n, n, 0.2, random).values;
    for (Index i = 0; i < n; ++i) {
      s[static_cast<std::size_t>(i * n + (i + 2) % n)] = -std::numeric_limits<float>::infinity();
    }
    const auto got = solve(Ready<float>(n, n, s), uniform(n, n), {});
    REQUIRE(got.summary.status == SolveStatus::converged);
    CHECK(got.summary.gap >= 0);
    CHECK(got.summary.gap < 1e-6);
  }
}

TEST_CASE(
    "no gap along trees if the plan is too far from its marginals or its parts are incomplete") {
  constexpr double none = -std::numeric_limits<double>::infinity();
  const Ready<double> parts(2, 2, {0, none, none, 0});
  Potentials potentials;
  potentials.row = {0, 0};
  potentials.col = {0, 0};
  const Marginals ones{{1, 1}, {1, 1}};
  const auto gap = [&](std::vector<double> rows, std::vector<double> cols) {
    return tree_gap(*parts.scores, potentials, ones.row, ones.col, rows, cols, 1e-12, 1);
  };
  CHECK(gap({0, 0}, {0, 0}) == 0);
  CHECK(gap({0.5, -1}, {0.5, -1}) == 0.25 + 1);
  CHECK(std::isnan(gap({0.5, -1.001}, {0.5, -1.001})));
  // In total nothing is missing.
  CHECK(std::isnan(gap({0.5, 0}, {0, 0.5})));
  // A large part does not excuse a small one.
  const Marginals uneven{{1, 1e-13}, {1, 1e-13}};
  const std::vector<double> few = {0, 1e-13}, none_at_all = {0, 0};
  CHECK(std::isnan(
      tree_gap(*parts.scores, potentials, uneven.row, uneven.col, few, none_at_all, 1e-12, 1)));
  const Ready<double> chain(2, 2, {0, none, 0, 0});
  const std::vector<double> rows = {0.25, 0.5}, cols = {0.5, 0.25};
  // δ = 0.25 at [0, 0], so 0.25 at [1, 0] and 0.25 at [1, 1].
  CHECK(tree_gap(*chain.scores, potentials, ones.row, ones.col, rows, cols, 1e-12, 1) ==
        3 * 0.0625);
}

TEST_CASE(
    "no gap is reported if totals differ; a masked row or column does not count as forbidden "
    "pairs") {
  std::vector<double> s(9, 0.5);
  const Marginals marginals{{1, 1, 1}, {1, 1, 1}};
  SinkhornOptions options;
  CHECK(solve(Ready<double>(3, 3, s), marginals, options).summary.gap >= 0);
  CHECK(std::isnan(solve(Ready<double>(3, 3, s), {{1, 1, 1}, {1, 1, 1.5}}, options).summary.gap));
  s[4] = -std::numeric_limits<double>::infinity();
  const auto closed = solve(Ready<double>(3, 3, s), {{1, 0, 1}, {0.5, 1, 0.5}}, options);
  CHECK(closed.summary.status == SolveStatus::converged);
  CHECK(closed.summary.gap >= 0);
}

TEST_CASE("over-relaxation and annealing reach the plain solution in fewer iterations") {
  Random random(304);
  const auto problem = plane<double>(80, 80, 0.002, random);
  const Marginals marginals = uniform(80, 80);
  SinkhornOptions options;
  options.stopping.tolerance = 1e-10;
  options.stopping.iterations = 200000;
  options.tuning.kept_bytes = 1 << 20;
  KeepWeights<double> plain;
  const auto want = solve<double>(problem, marginals, options, 2, {&plain});
  REQUIRE(want.summary.status == SolveStatus::converged);
  const auto check = [&](const SinkhornOptions& changed) {
    KeepWeights<double> weights;
    const auto got = solve<double>(problem, marginals, changed, 2, {&weights});
    REQUIRE(got.summary.status == SolveStatus::converged);
    // Both are as near to the limit as their errors say, except that the slowest part falls more
    // slowly than one iteration shows.
    double error = 0;
    for (std::size_t n = 0; n < weights.values.size(); ++n) {
      error += std::abs(weights.values[n] - plain.values[n]);
    }
    CHECK(error <= 1e-10 * static_cast<double>(want.summary.iterations));
    return got.summary.iterations;
  };
  SinkhornOptions relaxed = options;
  relaxed.relaxation = 1.7;
  CHECK(check(relaxed) < want.summary.iterations);
  SinkhornOptions annealed = options;
  annealed.anneals = true;
  check(annealed);
  annealed.relaxation = 1.7;
  check(annealed);
  // Far too strong: abandoned, but still converged.
  SinkhornOptions wild = options;
  wild.relaxation = 1.999;
  check(wild);
}

TEST_CASE_TEMPLATE("neither memory nor threads changes a bit", T, float, double) {
  Random random(305);
  for (const double epsilon : {0.5, 0.01, 0.0005}) {
    const auto problem = plane<T>(130, 300, epsilon, random);
    const Marginals marginals = uniform(130, 300);
    for (const double relaxation : {1.0, 1.4}) {
      SinkhornOptions options;
      options.stopping.iterations = 30;
      options.relaxation = relaxation;
      const auto want = solve(problem, marginals, options, 1);
      for (const std::int64_t bytes : {0, 100000, 1 << 20}) {
        for (const int threads : {1, 3}) {
          options.tuning.kept_bytes = bytes;
          const auto got = solve(problem, marginals, options, threads);
          CHECK(got.potentials.row == want.potentials.row);
          CHECK(got.potentials.col == want.potentials.col);
          CHECK(got.errors == want.errors);
          CHECK(got.summary.primal == want.summary.primal);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("one iteration with all marginals 1 is dnas to the last bit", T, float, double) {
  Random random(306);
  for (int n = 0; n < 12; ++n) {
    ProblemOptions shape = random_options(random, 200);
    const Problem<T> problem(shape, random);
    const AllowedCounts allowed = problem.scores().allowed_counts();
    Marginals ones;
    for (const Index keys : allowed.keys_of_query) ones.row.push_back(keys > 0 ? 1 : 0);
    for (const Index queries : allowed.queries_of_key) ones.col.push_back(queries > 0 ? 1 : 0);
    SinkhornOptions options;
    options.stopping.iterations = 1;
    KeepWeights<T> got_weights;
    const auto got = solve_sinkhorn<T>(problem.scores(), ones, options, {&got_weights}, 2);
    KeepWeights<T> want_weights;
    const auto want = attend<T>(problem.scores(), fixed(Scheme::dnas), {&want_weights}, 2);
    CHECK(got_weights.values == want_weights.values);
    CHECK(got.potentials.row == want.potentials.row);
    CHECK(got.potentials.col == want.potentials.col);
  }
}

TEST_CASE("epsilon of 1e-4 times the largest cost") {
  Random random(307);
  const Index points = long_run() ? 64 : 16;
  const auto problem = plane<double>(points, points, 1e-4, random);
  SinkhornOptions options;
  options.stopping.tolerance = 1e-7;
  options.stopping.iterations = 2000000;
  options.tuning.kept_bytes = 1 << 20;
  options.anneals = true;
  const auto got = solve(problem, uniform(points, points), options);
  CHECK(got.summary.status == SolveStatus::converged);
  CHECK(got.summary.row_error + got.summary.col_error <= 1e-7 + 1e-11);
  CHECK(got.summary.gap >= 0);
  // E is at most the tolerance, and no exponent is larger than a few times the scores.
  CHECK(got.summary.gap <= 1e-7 * 4 * 1e4);
}

TEST_CASE("at convergence the transposed problem has the transposed plan") {
  Random random(308);
  const auto problem = plane<double>(60, 45, 0.05, random);
  const Marginals marginals = random_marginals(60, 45, 0.5, random);
  std::vector<double> transposed(problem.values.size());
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t j = 0; j < 45; ++j) transposed[j * 60 + i] = problem.values[i * 45 + j];
  }
  const Ready<double> other(45, 60, transposed);
  SinkhornOptions options;
  options.stopping.tolerance = 1e-12;
  options.stopping.iterations = 100000;
  KeepWeights<double> plan, mirrored;
  const auto a = solve<double>(problem, marginals, options, 2, {&plan});
  const auto b = solve<double>(other, {marginals.col, marginals.row}, options, 2, {&mirrored});
  REQUIRE(a.summary.status == SolveStatus::converged);
  REQUIRE(b.summary.status == SolveStatus::converged);
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t j = 0; j < 45; ++j) {
      // The errors of both, times the number of iterations.
      CHECK(std::abs(plan.values[i * 45 + j] - mirrored.values[j * 60 + i]) <=
            1e-12 * static_cast<double>(a.summary.iterations + b.summary.iterations));
    }
  }
}

TEST_CASE("tolerances in force") {
  SinkhornOptions options;
  Stopping& stopping = options.stopping;
  CHECK(tolerance_in_force(stopping, 1, 8) == 1e-10);
  CHECK(tolerance_in_force(stopping, 100, 8) == 1e-10);
  CHECK(tolerance_in_force(stopping, 1, 4) == 1e-6);
  CHECK(tolerance_in_force(stopping, 100, 4) == doctest::Approx(1e-4));
  stopping.iterations = 3;
  CHECK(!tolerance_in_force(stopping, 1, 8));
  stopping.tolerance = 0.5;
  CHECK(tolerance_in_force(stopping, 1, 4) == 0.5);
  CHECK(useful_sinkhorn_bytes(options, 10, 20, 8) == 1600);
  stopping.iterations = 1;
  CHECK(useful_sinkhorn_bytes(options, 10, 20, 8) == 0);
}

TEST_CASE("float32 reaches the default tolerance in the stored plan, and reports no more") {
  Random random(309);
  for (const Index n : {8, 100, 256, 700}) {
    const auto problem = plane<float>(n, n, n == 256 ? 0.02 : 0.1, random);
    const Marginals ones{std::vector<double>(static_cast<std::size_t>(n), 1.0),
                         std::vector<double>(static_cast<std::size_t>(n), 1.0)};
    SinkhornOptions options;
    options.tuning.kept_bytes = 1 << 22;
    const auto got = solve(problem, ones, options);
    CHECK(got.summary.status == SolveStatus::converged);
    CHECK(got.summary.row_error + got.summary.col_error <= 1e-6 * static_cast<double>(n));
    // A thousandth of that is below the resolution of float32.
    options.stopping.tolerance = 1e-9 * static_cast<double>(n);
    CHECK(solve(problem, ones, options).summary.status == SolveStatus::not_converged);
  }
}
