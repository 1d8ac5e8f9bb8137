#include "sinkhorn/barycentre.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "barycentre_problem.hpp"
#include "long_run.hpp"
#include "same_bits.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// The same iteration on exponentials, in plain loops: v_k = a_k/Kᵀu_k, p = Π (K v_k)^w_k, u_k =
// p/K v_k. For small scores.
std::vector<double> plain_barycentre(const Matrix& s, const Histograms& h, Index iterations) {
  const std::size_t rows = s.size();
  const std::size_t cols = s.front().size();
  const auto count = static_cast<std::size_t>(h.count);
  Matrix u(count, std::vector<double>(rows, 1));
  std::vector<double> p;
  for (Index step = 0; step < iterations; ++step) {
    p.assign(rows, 1);
    Matrix moved(count, std::vector<double>(rows, 0));
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t j = 0; j < cols; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < rows; ++i) sum += std::exp(s[i][j]) * u[k][i];
        for (std::size_t i = 0; i < rows; ++i) {
          moved[k][i] += std::exp(s[i][j]) * h.masses[k * cols + j] / sum;
        }
      }
      for (std::size_t i = 0; i < rows; ++i) p[i] *= std::pow(moved[k][i], h.weights[k]);
    }
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < rows; ++i) u[k][i] = p[i] / moved[k][i];
    }
  }
  return p;
}

// Σ_k w_k OT(p, a_k), each solved by itself.
template <class T>
double value_at(const BarycentreProblem<T>& problem, const PooledVector<double>& p) {
  SinkhornOptions options;
  options.stopping.tolerance = 1e-12;
  options.stopping.iterations = 20000;
  double value = 0;
  const std::size_t cols = problem.masses.size() / problem.weights.size();
  for (std::size_t k = 0; k < problem.weights.size(); ++k) {
    if (problem.weights[k] == 0) continue;
    const auto first = problem.masses.begin() + static_cast<std::ptrdiff_t>(k * cols);
    const Marginals marginals{
        p, PooledVector<double>(first, first + static_cast<std::ptrdiff_t>(cols))};
    value += problem.weights[k] *
             solve_sinkhorn<T>(problem.scores(), marginals, options, {}, 1).summary.dual;
  }
  return value;
}

template <class T>
BarycentreOptions to_tolerance() {
  BarycentreOptions options;
  options.stopping.tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-11;
  options.stopping.iterations = 5000;
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("barycentres against plain loops, and their optimality", T, float, double) {
  Random random(51);
  constexpr bool is_float = sizeof(T) == sizeof(float);
  for (const auto& size :
       {std::pair<Index, Index>{1, 1}, {1, 5}, {4, 1}, {7, 7}, {33, 20}, {65, 66}}) {
    const Index m = size.first;
    const Index n = size.second;
    for (const Index count : {1, 2, 4}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(count);
      const BarycentreProblem<T> problem(m, n, count, 2.5, 1, random);
      const Histograms histograms = problem.histograms();
      // The plain loops over the largest take longer than all others.
      if (m == 65 && count != 2 && !long_run()) continue;
      const BarycentreOptions options = to_tolerance<T>();
      const Barycentre found = find_barycentre(problem.scores(), histograms, options, 1);
      const SinkhornSummary& summary = found.summary;
      CHECK(summary.status == SolveStatus::converged);
      CHECK(summary.row_error + summary.col_error <= *options.stopping.tolerance);
      CHECK(summary.mass == doctest::Approx(2.5).epsilon(1e-5));
      if (count == 1) CHECK(summary.iterations == 1);
      const Matrix s = problem.all_scores();
      const std::vector<double> want = plain_barycentre(s, histograms, 5000);
      for (std::size_t i = 0; i < want.size(); ++i) {
        // Errors of sums, the tolerance and its amplification.
        CHECK(found.masses[i] == doctest::Approx(want[i]).epsilon(is_float ? 1e-3 : 1e-8));
        double balance = 0;
        for (Index k = 0; k < count; ++k) {
          balance += problem.weights[static_cast<std::size_t>(k)] *
                     found.row[static_cast<std::size_t>(k * m) + i];
        }
        CHECK(std::abs(balance) <= 1e-12);
      }
      CHECK(summary.gap >= 0);
      CHECK(summary.gap <= 100 * *options.stopping.tolerance);
      // The value of p, and of another p, is no less than the bound.
      const double rounding = is_float ? 1e-5 : 1e-10;
      CHECK(value_at(problem, found.masses) == doctest::Approx(summary.dual).epsilon(rounding));
      PooledVector<double> other = found.masses;
      if (m > 1) {
        const double step = other[0] / 2;
        other[0] -= step;
        other[1] += step;
        CHECK(value_at(problem, other) > summary.dual + summary.gap);
      }
      BarycentreOptions keeping = options;
      keeping.tuning.kept_bytes = Index{1} << 20;
      const Barycentre again = find_barycentre(problem.scores(), histograms, keeping, 3);
      CHECK(same_nonempty_bits(found.masses, again.masses));
      CHECK(same_nonempty_bits(found.row, again.row));
      CHECK(same_nonempty_bits(found.col, again.col));
    }
  }
}

TEST_CASE("few iterations bound the optimum from both sides") {
  Random random(52);
  const BarycentreProblem<double> problem(20, 31, 3, 1, 3, random);
  BarycentreOptions options;
  options.stopping.tolerance = 1e-13;
  options.stopping.iterations = 20000;
  const double best =
      find_barycentre(problem.scores(), problem.histograms(), options, 2).summary.dual;
  for (const Index iterations : {1, 2, 5, 30}) {
    options.stopping.iterations = iterations;
    const SinkhornSummary found =
        find_barycentre(problem.scores(), problem.histograms(), options, 2).summary;
    CHECK(found.status == SolveStatus::not_converged);
    CHECK(found.iterations == iterations);
    CHECK(found.dual <= best + 1e-12);
    CHECK(found.dual + found.gap >= best - 1e-12);
    options.stopping.tolerance.reset();
    const Barycentre fixed = find_barycentre(problem.scores(), problem.histograms(), options, 2);
    CHECK(fixed.summary.status == SolveStatus::done);
    CHECK(fixed.errors.size() == static_cast<std::size_t>(iterations));
    CHECK(fixed.summary.dual == found.dual);
    options.stopping.tolerance = 1e-13;
  }
}

TEST_CASE_TEMPLATE("barycentres of scores far beyond the range of exponentials", T, float, double) {
  Random random(54);
  const BarycentreProblem<T> problem(33, 40, 3, 1, 40, random);
  BarycentreOptions options;
  options.stopping.iterations = 200;
  const Barycentre found = find_barycentre(problem.scores(), problem.histograms(), options, 2);
  double sum = 0;
  for (const double mass : found.masses) sum += mass;
  CHECK(sum == doctest::Approx(1));
  CHECK(std::isfinite(found.summary.dual));
  CHECK(found.summary.gap >= 0);
  CHECK(found.summary.row_error + found.summary.col_error <= 4);
}

TEST_CASE("histograms without mass have an empty barycentre") {
  Random random(55);
  BarycentreProblem<double> problem(3, 4, 2, 1, 1, random);
  std::fill(problem.masses.begin(), problem.masses.end(), 0.0);
  const Barycentre found = find_barycentre(problem.scores(), problem.histograms(), {}, 1);
  for (const double mass : found.masses) CHECK(mass == 0);
  CHECK(found.summary.status == SolveStatus::converged);
  CHECK(found.summary.dual == 0);
}

TEST_CASE("what has no barycentre is refused") {
  Random random(56);
  ProblemOptions sizes;
  sizes.mask = true;
  sizes.queries = 9;
  sizes.keys = 8;
  const Problem<double> masked(sizes, random);
  const std::vector<double> masses(16, 0.125);
  const std::vector<double> weights(2, 0.5);
  const Histograms histograms{2, masses, weights};
  const Error error = thrown_error([&] { find_barycentre(masked.scores(), histograms, {}, 1); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "a finite cost of every pair"));

  const BarycentreProblem<float> large(9, 8, 2, 1e36, 1, random);
  CHECK(thrown_error([&] {
          find_barycentre(large.scores(), large.histograms(), {}, 1);
        }).failure() == Failure::numerical);
}
