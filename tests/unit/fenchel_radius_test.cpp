#include "fenchel/radius.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dual_problem.hpp"
#include "reference/fenchel_reference.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

struct SolvedRadius {
  SolvedRadius(const DualProblem& problem, double square_radius, int threads = 1,
               const DualOptions& options = {})
      : lambda(size(problem.evidence.rows * problem.templates.cols)),
        h(lambda.size(), SolvedDual::missing),
        p(size(problem.evidence.rows * problem.templates.rows), SolvedDual::missing) {
    const Index queries = problem.evidence.rows;
    const auto found = solve_radius(problem, square_radius, options, threads,
                                    {{lambda.data(), queries, problem.templates.cols},
                                     {h.data(), queries, problem.templates.cols},
                                     {p.data(), queries, problem.templates.rows}});
    summaries.assign(found.begin(), found.end());
  }
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  std::vector<double> lambda, h, p;
  std::vector<DualSummary> summaries;
};

double square_norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

// The squared distance of `point` to the convex hull of points, by all of its faces: the projection
// onto the affine hull of a subset counts where its coordinates are >= 0.
double plain_hull_square(const std::vector<std::vector<double>>& points,
                         const std::vector<double>& point) {
  const std::size_t n = points.size();
  const std::size_t d = point.size();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t subset = 1; subset < (std::size_t{1} << n); ++subset) {
    std::vector<std::size_t> face;
    for (std::size_t i = 0; i < n; ++i) {
      if (((subset >> i) & 1U) != 0) face.push_back(i);
    }
    const std::size_t m = face.size();
    // Coordinates w with Σw = 1 at the least ‖Σ w_i t_i − point‖²: a bordered system.
    std::vector<std::vector<long double>> rows(m + 1, std::vector<long double>(m + 2, 0));
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        for (std::size_t c = 0; c < d; ++c) rows[i][j] += points[face[i]][c] * points[face[j]][c];
      }
      for (std::size_t c = 0; c < d; ++c) rows[i][m + 1] += points[face[i]][c] * point[c];
      rows[i][m] = rows[m][i] = 1;
    }
    rows[m][m + 1] = 1;
    bool singular = false;
    for (std::size_t k = 0; k <= m; ++k) {
      std::size_t pivot = k;
      for (std::size_t i = k; i <= m; ++i) {
        if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
      }
      std::swap(rows[k], rows[pivot]);
      singular = singular || std::abs(rows[k][k]) < 1e-14L;
      if (singular) break;
      for (std::size_t i = 0; i <= m; ++i) {
        if (i == k) continue;
        const long double factor = rows[i][k] / rows[k][k];
        for (std::size_t j = k; j < m + 2; ++j) rows[i][j] -= factor * rows[k][j];
      }
    }
    if (singular) continue;
    bool inside = true;
    std::vector<long double> away(point.begin(), point.end());
    for (std::size_t i = 0; i < m; ++i) {
      const long double weight = rows[i][m + 1] / rows[i][i];
      inside = inside && weight >= 0;
      for (std::size_t c = 0; c < d; ++c) away[c] -= weight * points[face[i]][c];
    }
    if (!inside) continue;
    long double sum = 0;
    for (const long double component : away) sum += component * component;
    least = std::min(least, static_cast<double>(sum));
  }
  return least;
}

}  // namespace

TEST_CASE("the radius of a dual's solution leads back to its alpha, lambda and p") {
  Random random(421);
  int compared = 0;
  for (const Index n : {2, 3, 7, 17, 33}) {
    for (const Index d : {1, 2, 5, 16, 17, 40}) {
      for (const double alpha : {0.03, 1.0, 20.0}) {
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.alpha = alpha;
        shape.zeros = n > 2;
        shape.offset = n == 7 ? 3 : 0;
        const OwnedDual owned(shape, random);
        const reference::Dual exact = reference::solve_dual(owned.problem(), 0);
        long double square = 0;
        for (const long double value : exact.lambda) square += value * value;
        const auto radius = static_cast<double>(square / (alpha * alpha));
        DualProblem problem = owned.problem();
        problem.alpha = 1e9;  // not looked at
        const SolvedRadius found(problem, radius);
        const DualSummary& summary = found.summaries[0];
        CAPTURE(n);
        CAPTURE(d);
        CAPTURE(alpha);
        CHECK(summary.status == DualStatus::converged);
        CHECK(summary.square_distance == doctest::Approx(radius).epsilon(2e-9));
        // u has one template; or more alpha leads no nearer.
        if (summary.alpha == 0 || summary.at_limit) continue;
        ++compared;
        CHECK(summary.gap <= 1e-10 * (1 + summary.primal));
        CHECK(summary.certificate_error <= static_cast<double>(64 + 4 * (n + d)));
        // How much ĥ moves with α decides the digits of α, not those of λ/α and of p.
        double away = 0;
        for (Index c = 0; c < d; ++c) {
          const auto at = static_cast<std::size_t>(c);
          away += std::pow(
              found.lambda[at] / summary.alpha - static_cast<double>(exact.lambda[at]) / alpha, 2);
        }
        CHECK(std::sqrt(away) <= 1e-8 * std::sqrt(radius));
        for (Index i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          CHECK(std::abs(found.p[at] - static_cast<double>(exact.p[at])) <= 1e-7);
        }
      }
    }
  }
  CHECK(compared >= 80);
}

TEST_CASE("p is u where the evidence is within the radius") {
  Random random(422);
  DualShape shape;
  shape.count = 5;
  shape.depth = 3;
  shape.queries = 2;
  const OwnedDual owned(shape, random);
  double largest = 0;
  for (Index q = 0; q < 2; ++q) {
    const double* z = owned.evidence_.data() + q * 3;
    largest = std::max(largest, square_norm({z, z + 3}));
  }
  const SolvedRadius found(owned.problem(), largest * (1 + 1e-12));
  double total = 0;
  for (const double u : owned.preference_) total += u;
  for (const DualSummary& summary : found.summaries) {
    CHECK(summary.status == DualStatus::converged);
    CHECK(summary.alpha == 0);
    CHECK(summary.gap == 0);
    CHECK(summary.iterations == 0);
  }
  CHECK(square_norm(found.lambda) == 0);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(found.p[i] == doctest::Approx(owned.preference_[i] / total).epsilon(1e-14));
  }
}

TEST_CASE("no p is nearer than the convex hull of the templates with a preference") {
  Random random(423);
  for (int repeat = 0; repeat < 24; ++repeat) {
    DualShape shape;
    shape.count = random_index(random, 1, 6);
    shape.depth = random_index(random, 1, 5);
    shape.zeros = true;
    OwnedDual owned(shape, random);
    for (double& z : owned.evidence_) z *= 4;
    std::vector<std::vector<double>> points;
    std::vector<double> target = owned.evidence_;
    double total = 0;
    for (const double u : owned.preference_) total += u;
    for (Index i = 0; i < shape.count; ++i) {
      const double* row = owned.templates_.data() + i * shape.depth;
      const double u = owned.preference_[static_cast<std::size_t>(i)];
      if (u > 0) points.emplace_back(row, row + shape.depth);
      for (std::size_t c = 0; c < target.size(); ++c) target[c] += u / total * row[c];
    }
    const double least = plain_hull_square(points, target);
    CAPTURE(repeat);
    CAPTURE(least);
    if (!(least > 1e-6) || !(least < 0.99 * square_norm(owned.evidence_))) continue;
    const Error error = thrown_error([&] { SolvedRadius(owned.problem(), least * (1 - 1e-8)); });
    CHECK(error.failure() == Failure::numerical);
    CHECK(contains(error.what(), "query 0: the squared distance of mu + z to any mean"));
    const SolvedRadius limit(owned.problem(), least * (1 + 1e-11));
    CHECK(limit.summaries[0].at_limit);
    CHECK(limit.summaries[0].square_distance == doctest::Approx(least).epsilon(2e-9));
    const SolvedRadius beyond(owned.problem(), least * 1.001);
    CHECK(!beyond.summaries[0].at_limit);
    CHECK(beyond.summaries[0].status == DualStatus::converged);
    CHECK(beyond.summaries[0].square_distance == doctest::Approx(least * 1.001).epsilon(1e-9));
  }
}

TEST_CASE("one template: its mean is as far as the evidence, whatever alpha") {
  const std::vector<double> t = {1, 2};
  const std::vector<double> z = {3, 4};
  const std::vector<double> u = {7};
  DualProblem problem{{t.data(), 1, 2}, {z.data(), 1, 2}, {u.data(), 1, 1}};
  CHECK(SolvedRadius(problem, 25).summaries[0].alpha == 0);
  CHECK(SolvedRadius(problem, 25 * (1 - 1e-10)).summaries[0].at_limit);
  CHECK(thrown_error([&] { SolvedRadius(problem, 24); }).failure() == Failure::numerical);
}

TEST_CASE("the solution for a radius depends neither on threads nor on other queries") {
  Random random(424);
  DualShape shape;
  shape.count = 20;
  shape.depth = 6;
  shape.queries = 9;
  shape.by_query = true;
  shape.zeros = true;
  OwnedDual owned(shape, random);
  for (double& z : owned.evidence_) z /= 10;
  const SolvedRadius one(owned.problem(), 0.01);
  const SolvedRadius three(owned.problem(), 0.01, 3);
  CHECK(one.lambda == three.lambda);
  CHECK(one.h == three.h);
  CHECK(one.p == three.p);
  for (Index q = 0; q < 9; ++q) {
    const DualSummary& summary = one.summaries[static_cast<std::size_t>(q)];
    if (owned.is_empty(q)) {
      CHECK(summary.status == DualStatus::empty);
      for (Index i = 0; i < 20; ++i) CHECK(one.p[static_cast<std::size_t>(q * 20 + i)] == 0);
    } else {
      CHECK(summary.status == DualStatus::converged);
    }
  }
}

TEST_CASE("too few steps for a radius are reported, not hidden") {
  Random random(426);
  DualShape shape;
  shape.count = 9;
  shape.depth = 3;
  const OwnedDual owned(shape, random);
  DualOptions options;
  options.max_iterations = 2;
  const SolvedRadius found(owned.problem(), 0.1, 1, options);
  CHECK(found.summaries[0].status == DualStatus::iteration_limit);
  CHECK(found.summaries[0].iterations <= 2);
  // The least squared distance is 0.0928, whatever the number of steps.
  const Error error = thrown_error([&] { SolvedRadius(owned.problem(), 0.05, 1, options); });
  CHECK(error.failure() == Failure::numerical);
}

TEST_CASE("a radius that is out of reach, or needs an alpha out of range, is refused") {
  const std::vector<double> t = {0, 0, 1, 0, 0, 1};
  const std::vector<double> u = {1, 1, 1};
  const auto refusal = [&](double z, double square_radius) {
    const std::vector<double> evidence = {z, z};
    const DualProblem problem{{t.data(), 3, 2}, {evidence.data(), 1, 2}, {u.data(), 1, 3}};
    const Error error = thrown_error([&] { SolvedRadius(problem, square_radius); });
    CHECK(error.failure() == Failure::numerical);
    return std::string(error.what());
  };
  for (const double z : {1e4, 1e14, 1e100}) {
    for (const double square_radius : {1.0, 1e-300}) {
      CHECK(contains(refusal(z, square_radius), "any mean of the templates is at least"));
    }
  }
  CHECK(contains(refusal(0.01, 1e-306), "needs an alpha beyond the range of logits"));
}
