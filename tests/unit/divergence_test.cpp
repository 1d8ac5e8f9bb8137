#include "sinkhorn/divergence_gradient.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "infinity.hpp"
#include "pass/partition.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct Cloud {
  Index count;
  std::vector<T> points;
  std::vector<double> masses;
  std::unique_ptr<Energy<T>> energy;
  std::optional<Scores<T>> scores;

  Cloud(Index size, double spread, double epsilon, std::mt19937_64& random) : count(size) {
    std::normal_distribution<double> normal(0, spread);
    std::uniform_real_distribution<double> uniform(0.5, 2);
    for (Index n = 0; n < 2 * size; ++n) points.push_back(static_cast<T>(normal(random)));
    double total = 0;
    for (Index n = 0; n < size; ++n) {
      masses.push_back(n == 2 ? 0 : uniform(random));  // a closed line
      total += masses.back();
    }
    for (double& mass : masses) mass /= total;
    energy = make_product_energy<T>(EnergyKind::gaussian, view(), view(), 2 / epsilon);
    scores.emplace(terms(*energy));
  }

  MatrixView<const T> view() const { return {points.data(), count, 2}; }
  static typename Scores<T>::Terms terms(const Energy<T>& energy) {
    typename Scores<T>::Terms terms;
    terms.energy = &energy;
    return terms;
  }
};

// Σ_j exp((s_ij − f_j) − f_i), in long double, of the scores as a pass makes them. In other tiles
// they may be rounded otherwise, depending on the instruction set, and a float near 10^4, as at a
// spread of 60, is rounded by 5e-4.
template <class T>
std::vector<double> sums(const Cloud<T>& cloud, std::span<const double> f) {
  const Index count = cloud.count;
  std::vector<T> scores(static_cast<std::size_t>(count * count));
  const Partition partition = partition_of(Order::row_panels, count, count, sizeof(T));
  typename Scores<T>::Scratch scratch;
  for (Index row0 = 0; row0 < count; row0 += partition.panel) {
    const Index rows = std::min(partition.panel, count - row0);
    cloud.scores->fill({row0, rows, 0, count}, {scores.data() + row0 * count, rows, count},
                       scratch);
  }
  std::vector<double> found;
  for (std::size_t i = 0; i < f.size(); ++i) {
    long double sum = 0;
    for (std::size_t j = 0; j < f.size(); ++j) {
      if (std::isinf(f[i]) || std::isinf(f[j])) continue;
      const T score = scores[i * f.size() + j];
      sum += std::exp(static_cast<long double>(score) - f[j] - f[i]);
    }
    found.push_back(static_cast<double>(sum));
  }
  return found;
}

}  // namespace

TEST_CASE_TEMPLATE("symmetric transport meets its marginals in few steps, with one potential", T,
                   float, double) {
  std::mt19937_64 random(3);
  const double tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-11;
  // Kernels that refer to zero, kernels that are absorbed, and scores far beyond either.
  for (const double spread : {0.5, 5.0, 60.0}) {
    for (const Index size : {1, 2, 65}) {
      CAPTURE(spread);
      CAPTURE(size);
      const Cloud<T> cloud(size, spread, 1, random);
      const Marginals marginals{PooledVector<double>(cloud.masses.begin(), cloud.masses.end()),
                                PooledVector<double>(cloud.masses.begin(), cloud.masses.end()),
                                {},
                                true};
      SinkhornOptions options;
      options.stopping.tolerance = tolerance;
      options.stopping.iterations = 60;
      const auto solve = [&](int threads) {
        return solve_sinkhorn<T>(*cloud.scores, marginals, options, {}, threads);
      };
      const SinkhornSolution found = solve(1);
      CHECK(found.summary.status == SolveStatus::converged);
      CHECK(found.summary.gap >= 0);
      // The error times scores and potentials, which are about as large.
      CHECK(found.summary.gap <= tolerance * (4 * cloud.scores->magnitude() + 40));
      CHECK(same_nonempty_bits(found.potentials.row, found.potentials.col));
      CHECK(same_nonempty_bits(found.potentials.row, solve(3).potentials.row));
      const std::vector<double> row = sums(cloud, found.potentials.row);
      double error = 0;
      for (std::size_t n = 0; n < row.size(); ++n) error += std::abs(row[n] - cloud.masses[n]);
      CHECK(error <= tolerance);
      // Errors fall by a half at least.
      const std::vector<double>& errors = found.errors;
      for (std::size_t n = 2; n < errors.size(); ++n) {
        if (errors[n - 1] > 100 * tolerance) CHECK(errors[n] <= 0.51 * errors[n - 1]);
      }
    }
  }
}

TEST_CASE("a divergence is that of its three problems, solved in either way") {
  std::mt19937_64 random(4);
  const Cloud<double> x(33, 1, 0.8, random);
  const Cloud<double> y(20, 1.5, 0.8, random);
  const auto energy =
      make_product_energy<double>(EnergyKind::gaussian, x.view(), y.view(), 2 / 0.8);
  const Scores<double> between(Cloud<double>::terms(*energy));
  const PooledVector<double> a(x.masses.begin(), x.masses.end());
  const PooledVector<double> b(y.masses.begin(), y.masses.end());
  SinkhornOptions options;
  options.stopping.tolerance = 1e-12;
  options.stopping.iterations = 100000;
  const DivergenceScores<double> scores{between, *x.scores, *y.scores};
  const SinkhornDivergence found = solve_divergence(scores, {a, b}, options, 2);
  CHECK(found.status() == SolveStatus::converged);
  const auto plain = [&](const Scores<double>& of, const Marginals& marginals) {
    return solve_sinkhorn<double>(of, marginals, options, {}, 1).summary;
  };
  const SinkhornSummary ab = plain(between, {a, b});
  const SinkhornSummary aa = plain(*x.scores, {a, a});
  const SinkhornSummary bb = plain(*y.scores, {b, b});
  CHECK(found.value == doctest::Approx(ab.dual - aa.dual / 2 - bb.dual / 2).epsilon(1e-9));
  CHECK(found.sharp == doctest::Approx(aa.score / 2 + bb.score / 2 - ab.score).epsilon(1e-6));
  CHECK(found.lower <= found.value);
  CHECK(found.upper >= found.value);
  // Where masses are positive, derivatives are the differences of potentials.
  const Potentials gradient = divergence_gradient<double>(scores, found, {a, b}, 2);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::isfinite(gradient.row[i]));
    if (a[i] == 0) continue;
    CHECK(gradient.row[i] ==
          doctest::Approx(found.row.potentials.row[i] - found.between.potentials.row[i]));
  }
  for (std::size_t j = 0; j < b.size(); ++j) {
    if (b[j] == 0) continue;
    CHECK(gradient.col[j] ==
          doctest::Approx(found.col.potentials.col[j] - found.between.potentials.col[j]));
  }
  const DivergenceScores<double> same{*x.scores, *x.scores, *x.scores};
  CHECK(std::abs(solve_divergence(same, {a, a}, options, 1).value) < 1e-11);
}
