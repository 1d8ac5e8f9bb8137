#include "sinkhorn/barycentre_gradient.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "barycentre_problem.hpp"
#include "gradient/bias_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "kernel/factor.hpp"
#include "same_bits.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
BarycentreOptions nearly_exact() {
  BarycentreOptions options;
  options.stopping.tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-13;
  options.stopping.iterations = 20000;
  return options;
}

template <class T>
Barycentre solved(const BarycentreProblem<T>& problem) {
  return find_barycentre(problem.scores(), problem.histograms(), nearly_exact<T>(), 1);
}

// Everything that is derived from a barycentre and h.
template <class T>
struct Derived {
  ImplicitBarycentre through;
  PooledVector<double> histograms, weights, optimum_by_weights;
  std::vector<T> scores;  // (Lq, Lk)
};

template <class T>
Derived<T> derived(const BarycentreProblem<T>& problem, Barycentre& found,
                   const std::vector<double>& h, int threads) {
  const Histograms histograms = problem.histograms();
  const Scores<T>& scores = problem.scores();
  ImplicitOptions options;
  options.tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;
  Derived<T> all;
  const BarycentreUpstream<T> upstream{h};
  all.through = implicit_barycentre(scores, found, histograms, upstream, options, threads);
  all.histograms =
      implicit_histogram_gradient(scores, found, histograms, upstream, all.through, threads);
  const HistogramPotentials potentials =
      histogram_potentials(scores, found, histograms, nearly_exact<T>(), threads);
  CHECK(potentials.status == SolveStatus::converged);
  all.weights = implicit_weight_gradient(scores, found, histograms, upstream, all.through,
                                         potentials, threads);
  all.optimum_by_weights = weight_gradient(found, histograms, potentials);
  const Index m = scores.rows();
  const Index n = scores.cols();
  std::vector<SolutionTerm> terms;
  for (Index k = 0; k < histograms.count; ++k) {
    terms.push_back({histograms.weights[static_cast<std::size_t>(k)], part_of(found.row, k, m),
                     part_of(found.col, k, n), part_of(all.through.row, k, m),
                     part_of(all.through.col, k, n)});
  }
  all.scores.resize(static_cast<std::size_t>(m * n));
  const auto sink = make_bias_gradient<T>(m, n, {all.scores.data(), m, n});
  GradientTargets<T> targets;
  targets.scores.push_back(sink.get());
  differentiate_solutions<T>(scores, terms, nullptr, targets, threads);
  return all;
}

// V (K, Lk) from a dense solution of the columns' equations, with plain sums. The kernel of the
// system is a constant t_k of each histogram with Σ w_k t_k = 0: over the masses, V is orthogonal
// to it.
std::vector<double> dense_columns(const std::vector<Matrix>& plans, const std::vector<double>& w,
                                  const PooledVector<double>& p, const std::vector<double>& h) {
  const std::size_t rows = p.size();
  const std::size_t cols = plans.front().front().size();
  const std::size_t size = plans.size() * cols;
  std::vector<double> entries(size * size), right(size), null(size);
  const auto entry = [&](std::size_t at, std::size_t other) -> double& {
    return entries[at * size + other];
  };
  for (std::size_t at = 0; at < size; ++at) {
    const std::size_t k = at / cols;
    for (std::size_t i = 0; i < rows; ++i) {
      const double mass = w[k] * plans[k][i][at % cols];
      entry(at, at) += mass;
      right[at] -= mass * h[i];
      for (std::size_t other = 0; other < size; ++other) {
        const std::size_t l = other / cols;
        entry(at, other) += mass * (w[l] - (l == k ? 1 : 0)) * plans[l][i][other % cols] / p[i];
      }
    }
  }
  std::vector<double> masses(size);
  for (std::size_t at = 0; at < size; ++at) {
    for (std::size_t i = 0; i < rows; ++i) masses[at] += plans[at / cols][i][at % cols];
    if (masses[at] == 0 || w[at / cols] == 0) entry(at, at) = 1;
  }
  for (std::size_t k = 1; k < plans.size(); ++k) {
    if (w[k] == 0) continue;
    for (std::size_t at = 0; at < size; ++at) {
      const std::size_t l = at / cols;
      null[at] = l == 0 ? masses[at] : l == k ? -masses[at] : 0;
    }
    for (std::size_t at = 0; at < size; ++at) {
      for (std::size_t other = 0; other < size; ++other) {
        entry(at, other) += null[at] * null[other];
      }
    }
  }
  const auto count = static_cast<Index>(size);
  const MatrixView<double> system(entries.data(), count, count);
  REQUIRE(kernel::cholesky(system));
  kernel::cholesky_solve(system, right.data());
  return right;
}

// Points on a line with the scores −(x − y)².
template <class T>
struct OnALine {
  std::vector<T> x, y;
  std::unique_ptr<Energy<T>> energy;
  std::optional<Scores<T>> scores;

  OnALine(std::vector<T> rows, std::vector<T> cols) : x(std::move(rows)), y(std::move(cols)) {
    energy =
        make_product_energy<T>(EnergyKind::gaussian, {x.data(), static_cast<Index>(x.size()), 1},
                               {y.data(), static_cast<Index>(y.size()), 1}, 2);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    scores.emplace(terms);
  }
};

}  // namespace

TEST_CASE("a barycentre has derivatives by its histograms") {
  Random random(53);
  BarycentreProblem<double> problem(6, 5, 3, 1, 1, random);
  BarycentreOptions options;
  options.stopping.tolerance = 1e-13;
  options.stopping.iterations = 20000;
  const auto solve = [&] {
    return find_barycentre(problem.scores(), problem.histograms(), options, 1);
  };
  const PooledVector<double> gradient = barycentre_gradient(solve(), problem.histograms());
  constexpr double step = 1e-5;
  for (std::size_t k = 0; k < 3; ++k) {
    const auto at = [&](std::size_t j) -> double& { return problem.masses[5 * k + j]; };
    for (std::size_t j = 0; j < 5; ++j) {
      if (problem.weights[k] == 0) {
        CHECK(gradient[5 * k + j] == 0);
        continue;
      }
      CHECK(std::isinf(gradient[5 * k + j]) == (at(j) == 0));
    }
    if (problem.weights[k] == 0) continue;
    std::vector<std::size_t> open;
    for (std::size_t j = 0; j < 5; ++j) {
      if (at(j) > 0) open.push_back(j);
    }
    REQUIRE(open.size() > 1);
    for (std::size_t n = 1; n < open.size(); ++n) {
      double values[2];
      for (const int side : {0, 1}) {
        const double moved = side == 0 ? -step : step;
        at(open[n]) += moved;
        at(open[0]) -= moved;
        values[side] = solve().summary.dual;
        at(open[n]) -= moved;
        at(open[0]) += moved;
      }
      CHECK(gradient[5 * k + open[n]] - gradient[5 * k + open[0]] ==
            doctest::Approx((values[1] - values[0]) / (2 * step)).epsilon(1e-6));
    }
  }
}

TEST_CASE_TEMPLATE("implicit derivatives of barycentres against a dense solution", T, float,
                   double) {
  Random random(71);
  for (const auto& size :
       {std::pair<Index, Index>{1, 1}, {1, 5}, {4, 1}, {7, 7}, {33, 20}, {65, 66}}) {
    const Index m = size.first;
    const Index n = size.second;
    for (const Index count : {1, 2, 4}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(count);
      const BarycentreProblem<T> problem(m, n, count, 2.5, 1, random);
      Barycentre found = solved(problem);
      std::normal_distribution<double> normal;
      std::vector<double> h;
      for (Index i = 0; i < m; ++i) h.push_back(normal(random));
      const Derived<T> have = derived(problem, found, h, 1);
      CHECK(have.through.status == SolveStatus::converged);

      const Matrix s = problem.all_scores();
      const auto rows = static_cast<std::size_t>(m);
      const auto cols = static_cast<std::size_t>(n);
      const auto histograms = static_cast<std::size_t>(count);
      std::vector<Matrix> plans;
      for (std::size_t k = 0; k < histograms; ++k) {
        plans.emplace_back(rows, std::vector<double>(cols));
        for (std::size_t i = 0; i < rows; ++i) {
          for (std::size_t j = 0; j < cols; ++j) {
            const double g = found.col[k * cols + j];
            if (std::isinf(g)) continue;
            plans[k][i][j] = std::exp(s[i][j] - g - found.row[k * rows + i]);
          }
        }
      }
      const std::vector<double> v = dense_columns(plans, problem.weights, found.masses, h);
      std::vector<double> r(rows);
      std::vector<double> slope(rows * cols);
      Matrix moved(histograms, std::vector<double>(rows));
      for (std::size_t i = 0; i < rows; ++i) {
        r[i] = found.masses[i] * h[i];
        for (std::size_t k = 0; k < histograms; ++k) {
          for (std::size_t j = 0; j < cols; ++j) moved[k][i] += plans[k][i][j] * v[k * cols + j];
          r[i] += problem.weights[k] * moved[k][i];
        }
        for (std::size_t k = 0; k < histograms; ++k) {
          const double u = (r[i] - moved[k][i]) / found.masses[i];
          for (std::size_t j = 0; j < cols; ++j) {
            slope[i * cols + j] += problem.weights[k] * plans[k][i][j] * (u + v[k * cols + j]);
          }
        }
      }
      // The tolerance, or rounding of the plan, times the condition of the system.
      constexpr double limit = sizeof(T) == sizeof(float) ? 2e-4 : 1e-9;
      for (std::size_t i = 0; i < rows; ++i) CHECK(std::abs(have.through.total[i] - r[i]) <= limit);
      for (std::size_t at = 0; at < slope.size(); ++at) {
        CHECK(std::abs(have.scores[at] - slope[at]) <= limit);
      }
      for (std::size_t at = 0; at < v.size(); ++at) {
        if (problem.masses[at] == 0) continue;
        CHECK(std::abs(have.histograms[at] + problem.weights[at / cols] * v[at]) <= limit);
      }
      const Derived<T> again = derived(problem, found, h, 3);
      CHECK(same_nonempty_bits(have.through.row, again.through.row));
      CHECK(same_nonempty_bits(have.histograms, again.histograms));
      CHECK(same_nonempty_bits(have.weights, again.weights));
      CHECK(same_nonempty_bits(have.optimum_by_weights, again.optimum_by_weights));
      CHECK(same_nonempty_bits(have.scores, again.scores));
    }
  }
}

TEST_CASE("implicit derivatives by histograms and weights against differences") {
  Random random(72);
  BarycentreProblem<double> problem(6, 5, 4, 1, 1, random);
  const std::vector<double> h = {0.3, -1, 0.5, 2, 0.1, -0.7};
  Barycentre at = solved(problem);
  const Derived<double> have = derived(problem, at, h, 1);
  const auto numbers = [&] {
    const Barycentre found = solved(problem);
    double product = 0;
    for (std::size_t i = 0; i < h.size(); ++i) product += h[i] * found.masses[i];
    return std::pair(product, found.summary.dual);
  };
  // From one side and of the second order, as masses and weights of 0 have no other side.
  constexpr double step = 1e-4;
  const auto slope = [&](const std::function<void(double)>& move) {
    const auto here = numbers();
    move(step);
    const auto near = numbers();
    move(step);
    const auto far = numbers();
    move(-2 * step);
    return std::pair((4 * near.first - far.first - 3 * here.first) / (2 * step),
                     (4 * near.second - far.second - 3 * here.second) / (2 * step));
  };
  constexpr double limit = 2e-6;  // step², times third derivatives
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t j = 0; j < 5; ++j) {
      if (problem.weights[k] == 0) {
        CHECK(have.histograms[5 * k + j] == 0);
        continue;
      }
      // The largest of the masses gives.
      std::size_t from = 5 * k;
      for (std::size_t other = from; other < 5 * k + 5; ++other) {
        if (problem.masses[other] > problem.masses[from]) from = other;
      }
      if (from == 5 * k + j) continue;
      const double want = slope([&](double by) {
                            problem.masses[5 * k + j] += by;
                            problem.masses[from] -= by;
                          }).first;
      CHECK(std::abs(have.histograms[5 * k + j] - have.histograms[from] - want) <= limit);
    }
    const std::vector<double> weights = problem.weights;
    double moved = 0;
    const auto want = slope([&](double by) {
      moved += by;
      for (std::size_t l = 0; l < 4; ++l) {
        problem.weights[l] = (weights[l] + (l == k ? moved : 0)) / (1 + moved);
      }
    });
    problem.weights = weights;
    CHECK(std::abs(have.weights[k] - want.first) <= limit);
    CHECK(std::abs(have.optimum_by_weights[k] - want.second) <= limit);
  }
  // All masses grow alike, and p with them.
  double growth = 0;
  for (std::size_t n = 0; n < problem.masses.size(); ++n) {
    growth += problem.masses[n] * have.histograms[n];
  }
  CHECK(growth == doctest::Approx(numbers().first));
}

namespace {

// Two histograms whose columns are near rows 0 to 5, and a column without mass near two rows that
// are farther off, where the barycentre has little mass.
template <class T>
struct FarColumn {
  OnALine<T> line;
  std::vector<double> masses = {0.2, 0.5, 0.3, 0, 0.4, 0.1, 0.5, 0};
  std::vector<double> weights = {0.3, 0.7};
  std::vector<double> h = {0.3, -1, 0.5, 2, 0.1, -0.7, 1.5, -2};

  explicit FarColumn(T far)
      : line({0, 1, 2, 3, 4, 5, far, far + 1}, {0.5, 2.5, 4.5, far + T{0.375}}) {}

  Histograms histograms() const { return {2, masses, weights}; }
  Barycentre find() const {
    return find_barycentre(*line.scores, histograms(), nearly_exact<T>(), 1);
  }
  ImplicitBarycentre solve(Barycentre& found) const {
    ImplicitOptions options;
    options.tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;
    return implicit_barycentre<T>(*line.scores, found, histograms(), {h}, options, 1);
  }
  PooledVector<double> gradient(const Barycentre& found, const ImplicitBarycentre& solved) const {
    return implicit_histogram_gradient<T>(*line.scores, found, histograms(), {h}, solved, 1);
  }
};

}  // namespace

TEST_CASE("derivatives by masses near rows with little mass, against differences") {
  FarColumn<double> problem(7.5);
  Barycentre found = problem.find();
  REQUIRE(found.masses[7] < 1e-6);
  const PooledVector<double> by = problem.gradient(found, problem.solve(found));
  for (const std::size_t k : {0, 1}) {
    const auto at = [&](double mass) {
      problem.masses[4 * k + 3] = mass;
      problem.masses[4 * k] -= mass;
      const Barycentre moved = problem.find();
      problem.masses[4 * k + 3] = 0;
      problem.masses[4 * k] += mass;
      double sum = 0;
      for (std::size_t i = 0; i < 8; ++i) sum += problem.h[i] * moved.masses[i];
      return sum;
    };
    // Far below what the rows have; from above and of the second order.
    constexpr double step = 1e-10;
    const double want = (4 * at(step) - at(2 * step) - 3 * at(0)) / (2 * step);
    CHECK(by[4 * k + 3] - by[4 * k] == doctest::Approx(want).epsilon(1e-3));
  }
}

TEST_CASE("derivatives by masses near rows whose mass is 0 in float") {
  const FarColumn<float> problem(14);
  const FarColumn<double> wide(14);
  Barycentre found = problem.find();
  CHECK(found.masses[7] < 1e-39);
  CHECK(found.masses[7] > 0);
  const ImplicitBarycentre solved = problem.solve(found);
  const PooledVector<double> have = problem.gradient(found, solved);
  // In double every row has mass.
  Barycentre exact = wide.find();
  const ImplicitBarycentre with_mass = wide.solve(exact);
  const PooledVector<double> want = wide.gradient(exact, with_mass);
  for (const std::size_t k : {0, 1}) {
    CHECK(solved.row[8 * k + 7] - solved.row[8 * k + 5] ==
          doctest::Approx(with_mass.row[8 * k + 7] - with_mass.row[8 * k + 5]).epsilon(1e-3));
    for (std::size_t j = 1; j < 4; ++j) {
      CHECK(have[4 * k + j] - have[4 * k] ==
            doctest::Approx(want[4 * k + j] - want[4 * k]).epsilon(1e-3));
    }
  }
}

TEST_CASE("a barycentre without mass has no derivatives, and too few steps are said") {
  Random random(73);
  BarycentreProblem<double> problem(9, 8, 3, 1, 1, random);
  const std::vector<double> h = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Barycentre found = solved(problem);
  ImplicitOptions few;
  few.iterations = 1;
  const ImplicitBarycentre poor =
      implicit_barycentre<double>(problem.scores(), found, problem.histograms(), {h}, few, 1);
  CHECK(poor.status == SolveStatus::not_converged);
  CHECK(poor.iterations == 1);
  CHECK(poor.residual > 1e-10);
  std::fill(problem.masses.begin(), problem.masses.end(), 0.0);
  Barycentre empty = solved(problem);
  const Derived<double> none = derived(problem, empty, h, 1);
  CHECK(none.through.status == SolveStatus::converged);
  for (const double value : none.scores) CHECK(value == 0);
  for (const double value : none.weights) CHECK(value == 0);
  for (const double value : none.optimum_by_weights) CHECK(value == 0);
}
