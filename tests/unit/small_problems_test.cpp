#include "sinkhorn/small_problems.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sinkhorn/plan_chain.hpp"

using namespace attn;

namespace {

constexpr double forbidden_score = -std::numeric_limits<double>::infinity();

// One problem by the formulas, in long double and by logarithms. A line without weight has the
// potential −inf.
struct PlainSolution {
  std::vector<double> plan, row_potential, col_potential;
  double error = 0;
};

template <class T>
PlainSolution plain_iterations(const T* s, Index m, Index n, const double* given_a,
                               const double* given_b, Index iterations) {
  using Line = std::vector<long double>;
  const auto at = [&](Index i, Index j) { return static_cast<long double>(s[i * n + j]); };
  const auto is_open = [](long double score) { return score != forbidden_score; };
  Line a(static_cast<std::size_t>(m)), b(static_cast<std::size_t>(n));
  long double total = 0, open_columns = 0;
  for (Index i = 0; i < m; ++i) {
    bool open = false;
    for (Index j = 0; j < n; ++j) open = open || is_open(at(i, j));
    a[static_cast<std::size_t>(i)] = given_a != nullptr ? given_a[i] : open ? 1 : 0;
    total += a[static_cast<std::size_t>(i)];
  }
  for (Index j = 0; j < n; ++j) {
    bool open = false;
    for (Index i = 0; i < m; ++i) open = open || is_open(at(i, j));
    b[static_cast<std::size_t>(j)] = open ? 1 : 0;
    open_columns += open ? 1 : 0;
  }
  for (Index j = 0; j < n; ++j) {
    long double& sum = b[static_cast<std::size_t>(j)];
    sum = given_b != nullptr ? given_b[j] : sum > 0 ? total / open_columns : 0;
  }
  Line f(a.size(), 0), g(b.size(), 0);
  const auto potential = [](const Line& terms, long double marginal) -> long double {
    long double largest = forbidden_score, sum = 0;
    for (const long double term : terms) largest = std::max(largest, term);
    if (largest == forbidden_score || marginal == 0) return forbidden_score;
    for (const long double term : terms) sum += std::exp(term - largest);
    return largest + std::log(sum) - std::log(marginal);
  };
  for (Index t = 0; t < iterations; ++t) {
    for (Index j = 0; j < n; ++j) {
      Line terms;
      for (Index i = 0; i < m; ++i) {
        const long double fi = f[static_cast<std::size_t>(i)];
        if (fi != forbidden_score) terms.push_back(at(i, j) - fi);
      }
      g[static_cast<std::size_t>(j)] = potential(terms, b[static_cast<std::size_t>(j)]);
    }
    for (Index i = 0; i < m; ++i) {
      Line terms;
      for (Index j = 0; j < n; ++j) {
        const long double gj = g[static_cast<std::size_t>(j)];
        if (gj != forbidden_score) terms.push_back(at(i, j) - gj);
      }
      f[static_cast<std::size_t>(i)] = potential(terms, a[static_cast<std::size_t>(i)]);
    }
  }
  PlainSolution found;
  Line rows(a.size(), 0), cols(b.size(), 0);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      const long double fi = f[static_cast<std::size_t>(i)];
      const long double gj = g[static_cast<std::size_t>(j)];
      const long double weight =
          fi == forbidden_score || gj == forbidden_score ? 0 : std::exp((at(i, j) - gj) - fi);
      found.plan.push_back(static_cast<double>(weight));
      rows[static_cast<std::size_t>(i)] += weight;
      cols[static_cast<std::size_t>(j)] += weight;
    }
  }
  for (std::size_t i = 0; i < a.size(); ++i)
    found.error += static_cast<double>(std::abs(rows[i] - a[i]));
  for (std::size_t j = 0; j < b.size(); ++j)
    found.error += static_cast<double>(std::abs(cols[j] - b[j]));
  found.row_potential.assign(f.begin(), f.end());
  found.col_potential.assign(g.begin(), g.end());
  return found;
}

template <class T>
struct SmallBatch {
  Index count, rows, cols;
  std::vector<T> scores;
  std::vector<double> a, b;
  std::vector<T> plan;
  std::vector<double> f, g, error;

  SmallBatch(Index problems, Index m, Index n, double spread) : count(problems), rows(m), cols(n) {
    std::mt19937_64 random(static_cast<std::uint64_t>(problems * 100 + m * 10 + n));
    std::normal_distribution<double> normal;
    for (Index k = 0; k < problems * m * n; ++k)
      scores.push_back(static_cast<T>(spread * normal(random)));
  }

  SmallSummary solve(Index iterations, int threads = 1) {
    plan.assign(scores.size(), T{7});
    f.assign(static_cast<std::size_t>(count * rows), 7);
    g.assign(static_cast<std::size_t>(count * cols), 7);
    error.assign(static_cast<std::size_t>(count), 7);
    kernel::SmallProblems<T> problems = {count, rows, cols, scores.data()};
    if (!a.empty()) problems.row_marginal = a.data();
    if (!b.empty()) problems.col_marginal = b.data();
    problems.row_step = static_cast<Index>(a.size()) > rows ? rows : 0;
    problems.col_step = static_cast<Index>(b.size()) > cols ? cols : 0;
    return solve_small<T>(problems, {plan.data(), f.data(), g.data(), error.data()}, iterations,
                          threads);
  }

  void check(Index iterations, double largest) const {
    const double unit = static_cast<double>(std::numeric_limits<T>::epsilon());
    // A factor has the roundings of its sum, of m + n terms; those of earlier iterations cancel.
    const double roundings = static_cast<double>(rows + cols + 8);
    const double allowed = roundings * unit * std::max(1.0, largest);
    for (Index p = 0; p < count; ++p) {
      CAPTURE(p);
      const auto line = [&](const std::vector<double>& lines, Index length) {
        return lines.empty()
                   ? nullptr
                   : lines.data() + (static_cast<Index>(lines.size()) > length ? p * length : 0);
      };
      const PlainSolution plain = plain_iterations(scores.data() + p * rows * cols, rows, cols,
                                                   line(a, rows), line(b, cols), iterations);
      const auto close = [](double x, double y, double tolerance) {
        return x == y || std::abs(x - y) <= tolerance;
      };
      for (Index k = 0; k < rows * cols; ++k) {
        CHECK(close(static_cast<double>(plan[static_cast<std::size_t>(p * rows * cols + k)]),
                    plain.plan[static_cast<std::size_t>(k)], allowed));
      }
      for (Index i = 0; i < rows; ++i) {
        CHECK(close(f[static_cast<std::size_t>(p * rows + i)],
                    plain.row_potential[static_cast<std::size_t>(i)], allowed));
      }
      for (Index j = 0; j < cols; ++j) {
        CHECK(close(g[static_cast<std::size_t>(p * cols + j)],
                    plain.col_potential[static_cast<std::size_t>(j)], allowed));
      }
      CHECK(close(error[static_cast<std::size_t>(p)], plain.error,
                  allowed * static_cast<double>(rows + cols)));
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("small problems are solved as by the formulas", T, float, double) {
  const std::pair<Index, Index> sizes[] = {{1, 1}, {4, 4}, {3, 5},   {5, 3},
                                           {8, 8}, {1, 7}, {17, 16}, {64, 64}};
  for (const auto& size : sizes) {
    const Index m = size.first;  // clang 14 has no captures of bindings
    const Index n = size.second;
    for (const Index count :
         {Index{0}, Index{1}, Index{15}, Index{17}, m < 20 ? Index{257} : Index{2}}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(count);
      SmallBatch<T> batch(count, m, n, 2);
      const SmallSummary summary = batch.solve(20);
      CHECK(summary.scaled == count);
      CHECK(summary.logarithmic == 0);
      batch.check(20, 10);
    }
  }
}

TEST_CASE_TEMPLATE("wide ranges of scores are solved by logarithms", T, float, double) {
  SmallBatch<T> batch(40, 4, 4, 1);
  for (std::size_t k = 0; k < 16; ++k) batch.scores[3 * 16 + k] *= T{100};
  for (std::size_t k = 0; k < 16; ++k) batch.scores[20 * 16 + k] *= T{100};
  const SmallSummary summary = batch.solve(20);
  CHECK(summary.logarithmic == 2);
  CHECK(summary.scaled == 38);
  batch.check(20, 400);
}

TEST_CASE_TEMPLATE("forbidden pairs, closed lines and given marginals", T, float, double) {
  const T none = static_cast<T>(forbidden_score);
  SmallBatch<T> batch(19, 4, 4, 1);
  batch.scores[1] = none;                                                   // one pair
  for (std::size_t j = 0; j < 4; ++j) batch.scores[16 + j] = none;          // a row
  for (std::size_t i = 0; i < 4; ++i) batch.scores[2 * 16 + 4 * i] = none;  // a column
  for (std::size_t k = 0; k < 16; ++k) batch.scores[3 * 16 + k] = none;     // all
  batch.solve(7);
  batch.check(7, 10);
  SUBCASE("one marginal for all") {
    batch.a = {1, 2, 0, 0.5};
    batch.b = {0.5, 1, 1, 1};
  }
  SUBCASE("a marginal for each") {
    for (Index k = 0; k < 19 * 4; ++k) batch.a.push_back(0.25 * static_cast<double>(k % 7));
  }
  batch.solve(7);
  batch.check(7, 10);
}

TEST_CASE_TEMPLATE("no plan: factors that diverge are left to logarithms", T, float, double) {
  // Rows 0 and 1 may use column 0 only, so both need its sum: factors fall by a constant each time.
  const T none = static_cast<T>(forbidden_score);
  SmallBatch<T> batch(3, 3, 3, 0);
  for (const std::size_t k : {1, 2, 4, 5}) batch.scores[9 + k] = none;
  const SmallSummary summary = batch.solve(4000);
  CHECK(summary.logarithmic >= 1);
  CHECK(batch.error[1] > 0.9);
  for (const T weight : batch.plan) CHECK(std::isfinite(weight));
}

TEST_CASE_TEMPLATE("bits do not depend on threads or on the neighbours", T, float, double) {
  SmallBatch<T> batch(1000, 4, 4, 3);
  batch.solve(20, 1);
  const auto plan = batch.plan;
  const auto error = batch.error;
  batch.solve(20, 3);
  CHECK(batch.plan == plan);
  CHECK(batch.error == error);
  SmallBatch<T> one(1, 4, 4, 3);
  std::copy_n(batch.scores.begin() + 777 * 16, 16, one.scores.begin());
  one.solve(20);
  CHECK(std::equal(one.plan.begin(), one.plan.end(), plan.begin() + 777 * 16));
}

TEST_CASE_TEMPLATE("rows first is columns first of the transposed problem, to the last bit", T,
                   float, double) {
  const Index m = 5, n = 3, count = 40;
  for (const double spread : {2.0, 12.0}) {  // by factors, and some by logarithms
    SmallBatch<T> batch(count, m, n, spread);
    SmallBatch<T> slopes(count, m, n, 1);
    std::vector<T> turned_scores(batch.scores.size()), turned_slopes(batch.scores.size());
    const auto turned = [&](std::size_t at) {
      const auto p = static_cast<Index>(at) / (m * n), i = static_cast<Index>(at) / n % m;
      const auto j = static_cast<Index>(at) % n;
      return static_cast<std::size_t>(p * m * n + j * m + i);
    };
    std::vector<double> ones(static_cast<std::size_t>(m), 0.6);
    std::vector<double> others(static_cast<std::size_t>(n), 1);
    for (std::size_t k = 0; k < batch.scores.size(); ++k) {
      turned_scores[turned(k)] = batch.scores[k];
      turned_slopes[turned(k)] = slopes.scores[k];
    }
    std::vector<T> plan(batch.scores.size()), gradient(plan), other_plan(plan),
        other_gradient(plan);
    kernel::SmallProblems<T> rows = {count, m, n, batch.scores.data()};
    rows.row_marginal = ones.data();
    rows.col_marginal = others.data();
    rows.rows_first = true;
    rows.grad_plan = slopes.scores.data();
    kernel::SmallProblems<T> cols = {count, n, m, turned_scores.data()};
    cols.row_marginal = others.data();
    cols.col_marginal = ones.data();
    cols.grad_plan = turned_slopes.data();
    solve_small<T>(rows, {.plan = plan.data(), .grad_scores = gradient.data()}, 9, 3);
    solve_small<T>(cols, {.plan = other_plan.data(), .grad_scores = other_gradient.data()}, 9, 1);
    for (std::size_t k = 0; k < plan.size(); ++k) {
      CHECK(plan[k] == other_plan[turned(k)]);
      CHECK(gradient[k] == other_gradient[turned(k)]);
    }
  }
}

TEST_CASE_TEMPLATE("gradients of factors and of logarithms agree, and sum to 0 along lines", T,
                   float, double) {
  // A pair that is closed in effect makes the range too large for factors, and hardly matters.
  const T unit = std::numeric_limits<T>::epsilon();
  for (const double eps : {0.0, 1e-6}) {
    SmallBatch<T> batch(20, 4, 4, 1);
    SmallBatch<T> slopes(20, 4, 4, 2);
    SmallBatch<T> wide = batch;
    for (std::size_t p = 0; p < 20; ++p) batch.scores[16 * p] = -35, wide.scores[16 * p] = -60;
    std::vector<T> gradient(batch.scores.size()), other(gradient);
    const auto solve = [&](const SmallBatch<T>& of, std::vector<T>& to) {
      kernel::SmallProblems<T> problems = {20, 4, 4, of.scores.data()};
      problems.eps = eps;
      problems.grad_plan = slopes.scores.data();
      return solve_small<T>(problems, {.grad_scores = to.data()}, 12, 1);
    };
    CHECK(solve(batch, gradient).logarithmic == 0);
    CHECK(solve(wide, other).logarithmic == (eps > 0 ? 0 : 20));
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      CHECK(std::abs(gradient[k] - other[k]) <= 200 * unit);
    }
    // A constant added to a column, the first to be normalised, changes nothing.
    for (std::size_t p = 0; p < 20; ++p) {
      for (std::size_t j = 0; j < 4; ++j) {
        T sum = 0;
        for (std::size_t i = 0; i < 4; ++i) sum += gradient[16 * p + 4 * i + j];
        CHECK(std::abs(sum) <= 200 * unit);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gains of a chain of plans", T, float, double) {
  // Permutations have all gains 1; doubling a plan doubles them.
  const std::vector<T> plans = {0, 1, 1, 0, 0, 2, 2, 0, 1, 1, 0, 1};
  std::vector<ChainGain> gains(3);
  chain_gains(plans.data(), 3, 2, gains.data());
  CHECK(gains[0].spectral == doctest::Approx(1));
  CHECK(gains[1].spectral == doctest::Approx(2));
  CHECK(gains[1].largest_row == 2);
  // [1 1; 0 1] · 2 I.
  CHECK(gains[2].largest_row == 4);
  CHECK(gains[2].largest_column == 4);
  CHECK(gains[2].spectral == doctest::Approx(1 + std::sqrt(5)));
}
