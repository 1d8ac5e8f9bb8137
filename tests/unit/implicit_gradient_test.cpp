#include "sinkhorn/implicit_gradient.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "gradient/energy_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "infinity.hpp"
#include "kernel/factor.hpp"
#include "same_bits.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Transport between two clouds, and a number L = ½ Σ H π² + ½ Σ X f² + ½ Σ Y g² of its solution,
// with potentials for which Σ f = Σ g unless there are penalties. Lines whose mass is 0 at first
// have no part in potentials, even when they gain mass.
template <class T>
struct ImplicitProblem {
  std::vector<T> q, k;
  std::vector<T> mask;  // (m, n) of 0 and −inf; empty: all pairs
  Marginals marginals;
  std::vector<double> h, x, y;
  std::vector<char> open_rows, open_cols;

  Index m() const { return static_cast<Index>(marginals.row.size()); }
  Index n() const { return static_cast<Index>(marginals.col.size()); }

  ImplicitProblem(Index rows, Index cols, bool masked, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform(0.5, 2);
    for (Index i = 0; i < 2 * rows; ++i) q.push_back(static_cast<T>(normal(random)));
    for (Index j = 0; j < 2 * cols; ++j) k.push_back(static_cast<T>(normal(random)));
    const auto fill = [&](PooledVector<double>& masses, Index count, Index closed) {
      double total = 0;
      for (Index i = 0; i < count; ++i) {
        masses.push_back(count > 3 && i == closed ? 0 : uniform(random));
        total += masses.back();
      }
      for (double& mass : masses) mass /= total;
    };
    fill(marginals.row, rows, 2);
    fill(marginals.col, cols, 1);
    for (Index i = 0; masked && i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        mask.push_back((3 * i + 5 * j) % 7 == 1 ? -std::numeric_limits<T>::infinity() : T{0});
      }
    }
    for (Index at = 0; at < rows * cols; ++at) h.push_back(normal(random));
    for (Index i = 0; i < rows; ++i) x.push_back(normal(random) / 10);
    for (Index j = 0; j < cols; ++j) y.push_back(normal(random) / 10);
    for (const double mass : marginals.row) open_rows.push_back(mass > 0);
    for (const double mass : marginals.col) open_cols.push_back(mass > 0);
  }

  template <class Use>
  auto with_scores(const Use& use) const {
    const auto energy =
        make_product_energy<T>(EnergyKind::gaussian, {q.data(), m(), 2}, {k.data(), n(), 2}, 2);
    const BroadcastMatrix<T> bias(mask.data(), n(), 1);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    if (!mask.empty()) terms.bias = &bias;
    return use(Scores<T>(terms));
  }
};

struct Solved {
  Potentials potentials;
  std::vector<double> plan;
};

template <class T>
Solved solved(const ImplicitProblem<T>& problem, const Scores<T>& scores) {
  SinkhornOptions options;
  options.stopping.tolerance = sizeof(T) == sizeof(float) ? 2e-6 : 1e-14;
  options.stopping.iterations = 100000;
  Solved found;
  found.potentials = solve_sinkhorn<T>(scores, problem.marginals, options, {}, 1).potentials;
  auto& [f, g, unused] = found.potentials;
  if (!problem.marginals.penalties) {
    double apart = 0;
    double lines = 0;
    for (std::size_t i = 0; i < f.size(); ++i) {
      if (problem.open_rows[i] != 0) apart += f[i], ++lines;
    }
    for (std::size_t j = 0; j < g.size(); ++j) {
      if (problem.open_cols[j] != 0) apart -= g[j], ++lines;
    }
    for (double& value : f) value -= apart / lines;
    for (double& value : g) value += apart / lines;
  }
  typename Scores<T>::Scratch scratch;
  for (Index i = 0; i < problem.m(); ++i) {
    std::vector<T> row(static_cast<std::size_t>(problem.n()));
    scores.fill({i, 1, 0, problem.n()}, {row.data(), 1, problem.n()}, scratch);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double fi = f[static_cast<std::size_t>(i)];
      const bool closed = std::isinf(fi) || std::isinf(g[j]);
      found.plan.push_back(closed ? 0 : std::exp(static_cast<double>(row[j]) - g[j] - fi));
    }
  }
  return found;
}

template <class T>
double number_of(const ImplicitProblem<T>& problem) {
  return problem.with_scores([&](const Scores<T>& scores) {
    const Solved found = solved(problem, scores);
    double sum = 0;
    for (std::size_t at = 0; at < problem.h.size(); ++at) {
      sum += problem.h[at] * found.plan[at] * found.plan[at] / 2;
    }
    const auto add = [&](const std::vector<double>& weight, const PooledVector<double>& z,
                         const std::vector<char>& open) {
      for (std::size_t i = 0; i < z.size(); ++i) {
        if (open[i] != 0) sum += weight[i] * z[i] * z[i] / 2;
      }
    };
    add(problem.x, found.potentials.row, problem.open_rows);
    add(problem.y, found.potentials.col, problem.open_cols);
    return sum;
  });
}

// What an implicit gradient gives, and the plan.
template <class T>
struct Found {
  ImplicitGradient gradient;
  Potentials marginals;
  std::vector<T> q, k;
  Solved at;
  std::vector<double> g, x, y;  // upstream
};

template <class T>
Found<T> differentiated(const ImplicitProblem<T>& problem, int threads) {
  return problem.with_scores([&](const Scores<T>& scores) {
    Found<T> found;
    found.at = solved(problem, scores);
    std::vector<T> g;
    for (std::size_t at = 0; at < problem.h.size(); ++at) {
      g.push_back(static_cast<T>(problem.h[at] * found.at.plan[at]));
    }
    const auto upstream = [](const std::vector<double>& weight, const PooledVector<double>& z) {
      std::vector<double> values;
      for (std::size_t i = 0; i < z.size(); ++i) {
        values.push_back(std::isinf(z[i]) ? 0 : weight[i] * z[i]);
      }
      return values;
    };
    found.g.assign(g.begin(), g.end());
    found.x = upstream(problem.x, found.at.potentials.row);
    found.y = upstream(problem.y, found.at.potentials.col);
    const BroadcastMatrix<T> source(g.data(), problem.n(), 1);
    ImplicitOptions options;
    options.tolerance = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;
    found.gradient = implicit_gradient<T>(scores, found.at.potentials, problem.marginals,
                                          {&source, found.x, found.y}, options, threads);
    found.marginals =
        implicit_marginal_gradient<T>(scores, found.gradient, found.at.potentials,
                                      problem.marginals, {&source, found.x, found.y}, threads);
    found.q.resize(problem.q.size());
    found.k.resize(problem.k.size());
    const auto sink = make_product_gradient<T>(
        EnergyKind::gaussian, {problem.q.data(), problem.m(), 2},
        {problem.k.data(), problem.n(), 2}, 2, {found.q.data(), problem.m(), 2},
        {found.k.data(), problem.n(), 2});
    GradientTargets<T> targets;
    targets.energies.push_back(sink.get());
    differentiate_solution<T>(scores, found.at.potentials, &source, found.gradient.row,
                              found.gradient.col, targets, threads);
    return found;
  });
}

template <class T>
std::vector<ImplicitProblem<T>> implicit_problems() {
  std::mt19937_64 random(61);
  std::vector<ImplicitProblem<T>> problems;
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {1, 4}, {5, 1}, {6, 5}, {33, 20}}) {
    for (const bool masked : {false, true}) {
      if (masked && std::min(m, n) < 5) continue;
      for (const bool soft : {false, true}) {
        problems.emplace_back(m, n, masked, random);
        if (soft) problems.back().marginals.penalties = {1.5, 0.7};
        if (soft) problems.back().marginals.row[0] *= 2;
      }
    }
  }
  return problems;
}

}  // namespace

TEST_CASE_TEMPLATE("implicit gradients against a dense solution of their system", T, float,
                   double) {
  for (const ImplicitProblem<T>& problem : implicit_problems<T>()) {
    const Index m = problem.m();
    const Index n = problem.n();
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(problem.marginals.penalties.has_value());
    const Found<T> found = differentiated(problem, 1);
    CHECK(found.gradient.status == SolveStatus::converged);
    const auto size = static_cast<std::size_t>(m + n);
    std::vector<double> entries(size * size);
    const MatrixView<double> system(entries.data(), m + n, m + n);
    std::vector<double> b = found.x;
    b.insert(b.end(), found.y.begin(), found.y.end());
    const auto penalties = problem.marginals.penalties;
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j);
        const double p = found.at.plan[at];
        system(i, m + j) = system(m + j, i) = p;
        system(i, i) += penalties ? p * (1 + 1 / penalties->row) : p;
        system(m + j, m + j) += penalties ? p * (1 + 1 / penalties->col) : p;
        b[static_cast<std::size_t>(i)] -= p * found.g[at];
        b[static_cast<std::size_t>(m + j)] -= p * found.g[at];
      }
    }
    // (1, −1) over the lines with mass, of which the system knows nothing: b loses its part, and
    // with it added the system is definite and gives the solution without such a part.
    std::vector<double> null;
    double along = 0;
    double lines = 0;
    for (Index at = 0; at < m + n; ++at) {
      const bool open = system(at, at) > 0;
      null.push_back(!open || penalties ? 0 : at < m ? 1 : -1);
      if (!open) b[static_cast<std::size_t>(at)] = 0;
      if (!open) system(at, at) = 1;
      along += null.back() * b[static_cast<std::size_t>(at)];
      lines += std::abs(null.back());
    }
    for (std::size_t at = 0; at < size && lines > 0; ++at) {
      b[at] -= along / lines * null[at];
      for (std::size_t other = 0; other < size; ++other) {
        entries[at * size + other] += null[at] * null[other] / lines;
      }
    }
    REQUIRE(kernel::cholesky(system));
    std::vector<double> want = b;
    kernel::cholesky_solve(system, want.data());
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    // The tolerance, or rounding of the plan, times the condition of the system.
    const double limit = (sizeof(T) == sizeof(float) ? 2e-4 : 1e-9) * largest;
    for (std::size_t at = 0; at < size; ++at) {
      const auto row = static_cast<std::size_t>(m);
      const double have = at < row ? found.gradient.row[at] : found.gradient.col[at - row];
      CHECK(std::abs(have - want[at]) <= limit);
    }
    const Found<T> again = differentiated(problem, 3);
    CHECK(same_nonempty_bits(found.gradient.row, again.gradient.row));
    CHECK(same_nonempty_bits(found.gradient.col, again.gradient.col));
    CHECK(same_nonempty_bits(found.q, again.q));
    CHECK(same_nonempty_bits(found.k, again.k));
  }
}

TEST_CASE("implicit gradients against differences of whole solutions") {
  for (ImplicitProblem<double>& problem : implicit_problems<double>()) {
    const bool soft = problem.marginals.penalties.has_value();
    CAPTURE(problem.m());
    CAPTURE(problem.n());
    CAPTURE(soft);
    const Found<double> found = differentiated(problem, 1);
    constexpr double step = 1e-4;
    // Differences of the fourth order: their errors are step⁴, and the solutions' 1e-14 over the
    // step.
    const auto slope = [&](const std::function<void(double)>& move) {
      const auto at = [&](double distance) {
        move(distance);
        const double value = number_of(problem);
        move(-distance);
        return value;
      };
      return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    };
    double size = 0;
    for (const double value : found.q) size = std::max(size, std::abs(value));
    const double limit = 1e-7 * (1 + size);
    const auto check_points = [&](std::vector<double>& points,
                                  const std::vector<double>& gradient) {
      for (std::size_t at = 0; at<points.size(); at += points.size()> 12 ? 7 : 1) {
        const double want = slope([&](double distance) { points[at] += distance; });
        CHECK(std::abs(gradient[at] - want) <= limit);
      }
    };
    check_points(problem.q, found.q);
    check_points(problem.k, found.k);
    const auto check_masses = [&](PooledVector<double>& masses,
                                  const PooledVector<double>& gradient) {
      std::vector<std::size_t> open;
      for (std::size_t at = 0; at < masses.size(); ++at) {
        if (masses[at] > 0) open.push_back(at);
      }
      for (std::size_t at = 0; at < masses.size(); ++at) {
        if (masses[at] > 0) continue;
        const auto grown = [&](double mass) {
          masses[at] += mass;
          if (!soft) masses[open[0]] -= mass;
          const double value = number_of(problem);
          masses[at] -= mass;
          if (!soft) masses[open[0]] += mass;
          return value;
        };
        const double here = number_of(problem);
        if (soft) {
          // The line's sum grows like a power of its mass below 1, as does L.
          const double slower = std::abs(grown(1e-6) - here) / 1e-6;
          CHECK(std::abs(grown(1e-9) - here) / 1e-9 > 3 * slower);
          CHECK(gradient[at] == (grown(1e-9) > here ? infinity : -infinity));
          continue;
        }
        // From above and of the second order; the other masses are about 0.05.
        constexpr double small = 1e-5;
        const double want = (4 * grown(small) - grown(2 * small) - 3 * here) / (2 * small);
        CHECK(std::abs(gradient[at] - gradient[open[0]] - want) <= 100 * limit);
      }
      for (std::size_t n = soft ? 0 : 1; n < std::min<std::size_t>(open.size(), 6); ++n) {
        const double want = slope([&](double distance) {
          masses[open[n]] += distance;
          if (!soft) masses[open[0]] -= distance;
        });
        const double have = gradient[open[n]] - (soft ? 0 : gradient[open[0]]);
        CHECK(std::abs(have - want) <= 10 * limit);
      }
    };
    check_masses(problem.marginals.row, found.marginals.row);
    check_masses(problem.marginals.col, found.marginals.col);
  }
}

TEST_CASE_TEMPLATE("implicit gradients of masses that are 0 in the format, and of nowhere to go", T,
                   float, double) {
  std::mt19937_64 random(63);
  ImplicitProblem<T> problem(7, 9, false, random);
  // Tiny in double, 0 in a plan of float; the same derivative as at 0, as nothing depends on f_2.
  const Found<T> at_zero = differentiated(problem, 1);
  const double tiny = sizeof(T) == sizeof(float) ? 1e-60 : 1e-300;
  problem.marginals.row[2] = tiny;
  problem.x[2] = 0;
  const Found<T> near_zero = differentiated(problem, 1);
  CHECK(near_zero.gradient.row_sums[2] == 0);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(near_zero.marginals.row[i] == doctest::Approx(at_zero.marginals.row[i]).epsilon(1e-3));
  }
  problem.with_scores([&](const Scores<T>& scores) {
    Potentials potentials = near_zero.at.potentials;
    const auto by_rows = [&](double mass, const std::vector<double>& x, bool soft) {
      Marginals marginals = problem.marginals;
      marginals.row[2] = mass;
      if (soft) marginals.penalties = {1.5, 0.7};
      if (mass == 0) potentials.row[2] = minus_infinity;
      const PlanUpstream<T> upstream{nullptr, x, {}};
      const ImplicitGradient found =
          implicit_gradient<T>(scores, potentials, marginals, upstream, {}, 1);
      return implicit_marginal_gradient<T>(scores, found, potentials, marginals, upstream, 1).row;
    };
    // f_2 is −log a_2.
    const std::vector<double> x = {0, 0, 3, 0, 0, 0, 0};
    CHECK(by_rows(tiny, x, false)[2] == doctest::Approx(-3 / tiny));
    CHECK(by_rows(0, x, false)[2] == -infinity);
    CHECK(by_rows(0, x, true)[2] == -infinity);
    CHECK(by_rows(0, {0, 0, -3, 0, 0, 0, 0}, false)[2] == infinity);
    for (const bool soft : {false, true}) {
      for (const double slope : by_rows(0, {}, soft)) CHECK(slope == 0);
    }
    return 0;
  });
  // A row without an allowed pair.
  ImplicitProblem<T> closed(7, 9, true, random);
  std::fill_n(closed.mask.begin() + 2 * 9, 9, -std::numeric_limits<T>::infinity());
  CHECK(std::isnan(differentiated(closed, 1).marginals.row[2]));
  closed.marginals.penalties = {1.5, 0.7};
  CHECK(differentiated(closed, 1).marginals.row[2] == 0);
}

TEST_CASE("what depends on nothing has no implicit gradient, and too few steps are said") {
  std::mt19937_64 random(62);
  const ImplicitProblem<double> problem(7, 9, false, random);
  problem.with_scores([&](const Scores<double>& scores) {
    Solved found = solved(problem, scores);
    // Σ π never changes.
    const double one = 3;
    const BroadcastMatrix<double> constant(&one, 0, 0);
    const ImplicitGradient none = implicit_gradient<double>(
        scores, found.potentials, problem.marginals, {&constant, {}, {}}, {}, 1);
    // G + u + v is 0, with Σ u = Σ v over 6 and 8 lines.
    for (const double u : none.row) CHECK((u == 0 || u == doctest::Approx(-3.0 * 8 / 14)));
    for (const double v : none.col) CHECK((v == 0 || v == doctest::Approx(-3.0 * 6 / 14)));
    const ImplicitGradient nothing =
        implicit_gradient<double>(scores, found.potentials, problem.marginals, {}, {}, 1);
    CHECK(nothing.iterations == 0);
    CHECK(nothing.residual == 0);
    ImplicitOptions options;
    options.iterations = 2;
    const std::vector<double> x = {1, 2, 0, 4, -1, 3, 2};
    const ImplicitGradient few = implicit_gradient<double>(
        scores, found.potentials, problem.marginals, {nullptr, x, {}}, options, 1);
    CHECK(few.status == SolveStatus::not_converged);
    CHECK(few.iterations == 2);
    CHECK(few.residual > 1e-10);
    return 0;
  });
}
