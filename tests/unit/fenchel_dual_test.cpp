#include "fenchel/dual.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dual_problem.hpp"
#include "long_run.hpp"
#include "reference/fenchel_reference.hpp"
#include "repeats.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// The rounding error of a gradient, times alpha: float64 cannot represent a more exact λ. Logits
// are sums of d products, whose errors do not all have one sign.
long double lambda_rounding(const OwnedDual& owned, const reference::Dual& exact) {
  const auto norm = [](const auto& values) {
    long double sum = 0;
    for (const auto value : values) sum += static_cast<long double>(value) * value;
    return std::sqrt(sum);
  };
  const long double reach = 2 * owned.largest_template();
  const long double logits = reach * norm(exact.lambda);
  const auto evidence = static_cast<long double>(owned.largest_evidence());
  return owned.problem().alpha * std::numeric_limits<double>::epsilon() *
         (evidence + reach * (1 + 4 * logits));
}

// The worst errors over the queries of a problem, each in units of its bound.
struct DualErrors {
  long double lambda = 0, h = 0, p = 0, gap = 0, certificate = 0;
};

DualErrors compare(const OwnedDual& owned, const DualOptions& options, int threads = 1) {
  const SolvedDual found(owned.problem(), options, threads);
  DualErrors worst;
  const auto add = [](long double& largest, long double value) {
    // Written so that a NaN is kept.
    if (!(value <= largest)) largest = value;
  };
  for (Index q = 0; q < owned.queries(); ++q) {
    // The reference takes most of the time: short runs have some of many queries.
    if (!long_run() && q >= 20 && q % 10 != 0) continue;
    const DualSummary& summary = found.summaries[static_cast<std::size_t>(q)];
    if (owned.is_empty(q)) {
      CHECK(summary.status == DualStatus::empty);
      CHECK(summary.iterations == 0);
      for (Index c = 0; c < owned.depth(); ++c) CHECK(found.lambda(q, c) == 0);
      for (Index i = 0; i < owned.count(); ++i) CHECK(found.p(q, i) == 0);
      continue;
    }
    CAPTURE(q);
    CHECK(summary.status == DualStatus::converged);
    const reference::Dual exact = reference::solve_dual(owned.problem(), q);
    long double away = 0;
    long double h_away = 0;
    for (Index c = 0; c < owned.depth(); ++c) {
      const auto at = static_cast<std::size_t>(c);
      away += std::pow(found.lambda(q, c) - exact.lambda[at], 2.0L);
      h_away += std::pow(found.h(q, c) - exact.h[at], 2.0L);
    }
    const long double allowed = std::max(1e-9L, lambda_rounding(owned, exact));
    add(worst.lambda, std::sqrt(away) / allowed);
    // λ = α (μ̃ + z − ĥ): the error of λ is α times that of ĥ, plus the rounding of ĥ itself.
    const long double offset = owned.largest_component() * 1e-14L;
    add(worst.h, std::sqrt(h_away) / (allowed / owned.problem().alpha + 1e-9L + offset));
    long double sum = 0;
    for (Index i = 0; i < owned.count(); ++i) {
      const long double p = found.p(q, i);
      sum += p;
      // p changes by p times the change of its logit.
      const long double logit = 2 * owned.largest_template() * allowed * 2;
      add(worst.p, std::abs(p - exact.p[static_cast<std::size_t>(i)]) / (logit + 1e-12L));
      if (owned.preference_of(q, i) == 0) CHECK(p == 0);
    }
    add(worst.p, std::abs(sum - 1) / 1e-12L);
    const double relative = summary.gap / (1 + std::abs(summary.primal));
    add(worst.gap, relative / options.tolerance);
    CHECK(summary.gap == doctest::Approx(owned.problem().alpha / 2 * summary.gradient_norm *
                                         summary.gradient_norm));
    // Each value is a sum of n + d rounded terms, including logits of d products each.
    add(worst.certificate,
        summary.certificate_error / static_cast<double>(64 + 4 * (owned.count() + owned.depth())));
    const long double size = 1 + std::abs(exact.primal);
    add(worst.certificate, std::abs(summary.primal - exact.primal) / (size * 1e-9L));
  }
  return worst;
}

void check(const OwnedDual& owned, DualOptions options = {}) {
  CAPTURE(owned.count());
  CAPTURE(owned.depth());
  CAPTURE(owned.queries());
  CAPTURE(owned.problem().alpha);
  CAPTURE(owned.largest_template());
  const DualErrors worst = compare(owned, options, 2);
  CHECK(worst.lambda <= 1);
  CHECK(worst.h <= 1);
  CHECK(worst.p <= 1);
  CHECK(worst.gap <= 1);
  CHECK(worst.certificate <= 1);
}

}  // namespace

TEST_CASE("duals of all sizes against Newton's method in long double") {
  Random random(401);
  for (const Index n : {1, 2, 3, 7, 16, 17, 33, 70}) {
    for (const Index d : {1, 2, 5, 16, 17, 40}) {
      DualShape shape;
      shape.count = n;
      shape.depth = d;
      shape.queries = random_index(random, 1, 20);
      check(OwnedDual(shape, random));
    }
  }
}

TEST_CASE("duals of many templates and of many axes") {
  Random random(402);
  // The reference is cubic in the axes, and slow at 800.
  const Index most_axes = long_run() ? 800 : 150;
  for (const auto& [n, d] :
       {std::pair<Index, Index>{600, 3}, {600, 60}, {4, most_axes}, {40, 200}}) {
    DualShape shape;
    shape.count = n;
    shape.depth = d;
    shape.queries = 2;
    shape.norm = 3;
    check(OwnedDual(shape, random));
  }
}

TEST_CASE("duals at alpha from 1e-3 to 1e3 with templates of norm up to 50") {
  Random random(403);
  for (int a = 0; const double alpha : {1e-3, 0.1, 1.0, 30.0, 1e3}) {
    for (int m = a++; const double norm : {0.1, 5.0, 50.0}) {
      int place = m++;
      for (const auto& [n, d] : {std::pair<Index, Index>{30, 4}, {40, 25}, {20, 60}, {90, 30}}) {
        // Short runs have each shape with each alpha and with each norm.
        if (!long_run() && ++place % 3 != 0) continue;
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.queries = 4;
        shape.alpha = alpha;
        shape.norm = norm;
        shape.zeros = true;
        check(OwnedDual(shape, random));
      }
    }
  }
}

TEST_CASE("preferences per query: with zeros, with any sum, some entirely zero") {
  Random random(404);
  for (int n = 0; n < repeats(30); ++n) {
    DualShape shape;
    shape.count = random_size(random, 1, 80);
    shape.depth = random_size(random, 1, 40);
    shape.queries = random_size(random, 1, 70);
    shape.by_query = true;
    shape.zeros = true;
    shape.decades = 200;
    check(OwnedDual(shape, random));
  }
}

TEST_CASE("a shift of all templates does not reduce accuracy") {
  Random random(405);
  for (const auto& [n, d] : {std::pair<Index, Index>{30, 4}, {50, 20}, {12, 40}}) {
    DualShape shape;
    shape.count = n;
    shape.depth = d;
    shape.queries = 5;
    shape.offset = 1024;
    OwnedDual owned(shape, random);
    // Multiples of 2^-30: subtracting the shift restores the same numbers.
    for (double& value : owned.templates_)
      value = std::ldexp(std::round(std::ldexp(value, 30)), -30);
    check(owned);
  }
}

TEST_CASE("the result of a query depends neither on other queries nor on threads") {
  Random random(406);
  for (const auto& [n, d] : {std::pair<Index, Index>{64, 8}, {80, 50}, {150, 30}, {40, 90}}) {
    DualShape shape;
    shape.count = n;
    shape.depth = d;
    shape.queries = 61;
    shape.by_query = true;
    shape.norm = 8;
    const OwnedDual owned(shape, random);
    DualOptions options;
    const SolvedDual one(owned.problem(), options);
    const SolvedDual three(owned.problem(), options, 3);
    CHECK(one.lambdas == three.lambdas);
    CHECK(one.hs == three.hs);
    CHECK(one.ps == three.ps);
    OwnedDual others = owned;
    for (Index at = 0; at < 60 * d; ++at) others.evidence_[static_cast<std::size_t>(at)] *= -3;
    for (Index at = 0; at < 50 * n; ++at) others.preference_[static_cast<std::size_t>(at)] = 0;
    const SolvedDual among(others.problem(), options);
    for (Index c = 0; c < d; ++c) CHECK(among.lambda(60, c) == one.lambda(60, c));
  }
}

TEST_CASE("parts of the queries have the bits of a run with all of them") {
  Random random(29);
  // By second moments, by the Gram matrix, by conjugate gradients, in a basis of the templates.
  const std::vector<DualShape> shapes = {
      {.count = 40, .depth = 5, .queries = 341},
      {.count = 60, .depth = 80, .queries = 400, .norm = 8},
      {.count = 90, .depth = 33, .queries = 300, .by_query = true},
      {.count = 12, .depth = 30, .queries = 250}};
  for (const DualShape& shape : shapes) {
    CAPTURE(shape.count);
    const OwnedDual owned(shape, random);
    const DualProblem all = owned.problem();
    const SolvedDual whole(all, {});
    for (const Index part : {dual_part_step, 4 * dual_part_step}) {
      for (Index first = 0; first < shape.queries; first += part) {
        const Index count = std::min(part, shape.queries - first);
        DualProblem some = all;
        some.evidence = all.evidence.row_range(first, count);
        if (shape.by_query) some.preference = all.preference.row_range(first, count);
        some.all_queries = shape.queries;
        const SolvedDual found(some, {});
        const auto same = [&](const std::vector<double>& values,
                              const std::vector<double>& of_all) {
          const auto width = static_cast<Index>(of_all.size()) / shape.queries;
          return std::equal(values.begin(), values.end(), of_all.begin() + first * width);
        };
        CHECK(same(found.lambdas, whole.lambdas));
        CHECK(same(found.hs, whole.hs));
        CHECK(same(found.ps, whole.ps));
      }
    }
  }
}

TEST_CASE("gradient_tolerance is met, or the status reports that it is not") {
  Random random(407);
  DualShape shape;
  shape.count = 60;
  shape.depth = 30;
  shape.queries = 9;
  const OwnedDual owned(shape, random);
  DualOptions options;
  options.gradient_tolerance = 1e-3;
  for (const DualSummary& summary : SolvedDual(owned.problem(), options).summaries) {
    CHECK(summary.status == DualStatus::converged);
    CHECK(summary.gradient_norm <= 1e-3);
  }
  // No float64 has such a small gradient.
  options.gradient_tolerance = 1e-30;
  for (const DualSummary& summary : SolvedDual(owned.problem(), options).summaries) {
    CHECK(summary.status == DualStatus::stalled);
    CHECK(summary.gradient_norm <= 1e-12);
  }
  options.gradient_tolerance = 1e-12;
  options.max_iterations = 1;
  for (const DualSummary& summary : SolvedDual(owned.problem(), options).summaries) {
    CHECK(summary.status == DualStatus::iteration_limit);
    CHECK(summary.iterations == 1);
    CHECK(summary.gradient_norm > 1e-12);
  }
}

TEST_CASE("a lambda near 0 is accurate, and an exact 0 is found") {
  Random random(408);
  for (const double gamma : {0.0, 0.7}) {
    for (const auto& [n, d] : {std::pair<Index, Index>{9, 5}, {60, 30}, {20, 40}}) {
      for (const double size : {1e-3, 1e-9, 1e-12, 0.0}) {
        DualShape shape;
        shape.count = n;
        shape.depth = d;
        shape.gamma = gamma;
        OwnedDual owned(shape, random);
        for (double& value : owned.evidence_) value *= size;
        CAPTURE(shape.count);
        CAPTURE(size);
        CAPTURE(gamma);
        DualOptions options;
        options.tolerance = 1e-4;
        const SolvedDual found(owned.problem(), options);
        CHECK(found.summaries.front().status == DualStatus::converged);
        const reference::Dual exact = reference::solve_dual(owned.problem(), 0);
        long double away = 0;
        long double norm = 0;
        for (Index c = 0; c < d; ++c) {
          const long double value = exact.lambda[static_cast<std::size_t>(c)];
          away += std::pow(found.lambda(0, c) - value, 2.0L);
          norm += value * value;
        }
        // Rounding of means of templates up to 2.
        CHECK(std::sqrt(away) <= 1.1e-3L * std::sqrt(norm) + 1e-14L);
      }
    }
  }
}

TEST_CASE("where logits hardly move, a step or two are enough") {
  Random random(410);
  const auto most_steps = [&](const DualShape& shape) {
    const OwnedDual owned(shape, random);
    check(owned);
    Index most = 0;
    for (const DualSummary& summary : SolvedDual(owned.problem(), {}).summaries) {
      most = std::max(most, summary.iterations);
    }
    return most;
  };
  // By conjugate gradients for one query and for whole tiles and one more, and by the Gram matrix.
  CHECK(most_steps({.count = 200, .depth = 31, .queries = 1, .alpha = 0.01}) <= 1);
  CHECK(most_steps({.count = 97, .depth = 33, .queries = 9, .alpha = 0.01}) <= 1);
  CHECK(most_steps({.count = 65, .depth = 64, .queries = 200, .alpha = 0.01}) <= 1);
  CHECK(most_steps({.count = 97, .depth = 33, .queries = 9, .norm = 1}) <= 2);
  CHECK(most_steps({.count = 65, .depth = 64, .queries = 200, .norm = 1}) <= 2);
}

TEST_CASE("extreme alpha and templates do not take hundreds of steps") {
  Random random(409);
  for (const auto& [n, d] : {std::pair<Index, Index>{300, 100}, {200, 30}}) {
    DualShape shape;
    shape.count = n;
    shape.depth = d;
    shape.queries = 4;
    shape.alpha = 1000;
    shape.norm = 50;
    const OwnedDual owned(shape, random);
    for (const DualSummary& summary : SolvedDual(owned.problem(), {}).summaries) {
      CAPTURE(shape.count);
      CHECK(summary.status == DualStatus::converged);
      CHECK(summary.iterations <= 120);
    }
  }
}

TEST_CASE("memory grows as the square of the templates only if such a matrix is used") {
  // A square would take thousands of billions of bytes; wide vectors pad templates with few
  // numbers.
  CHECK(dual_bytes(1, 1000000, 2, false, 1) < 4'000'000'000);
  CHECK(dual_bytes(8, 50000, 64, false, 1) < 4'000'000'000);
  CHECK(dual_bytes(8, 20000, 12000, false, 1) > 2 * 20000LL * 20000 * 4);
  CHECK(dual_bytes(8, 20000, 2, true, 1) > 2 * 20000LL * 20000 * 8);
}

TEST_CASE("no queries, no templates, no axes") {
  const double number = 1;
  DualProblem problem;
  problem.templates = {&number, 1, 1};
  problem.evidence = {&number, 0, 1};
  problem.preference = {&number, 1, 1};
  CHECK(SolvedDual(problem, {}).summaries.empty());
  problem.evidence = {&number, 1, 1};
  problem.templates = {&number, 0, 1};
  problem.preference = {&number, 1, 0};
  const SolvedDual none(problem, {});
  CHECK(none.summaries.front().status == DualStatus::empty);
  CHECK(none.lambda(0, 0) == 0);
  const double several[] = {1, 3, 4};
  problem.templates = {several, 3, 0};
  problem.evidence = {several, 1, 0};
  problem.preference = {several, 1, 3};
  const SolvedDual flat(problem, {});
  CHECK(flat.summaries.front().status == DualStatus::converged);
  for (Index i = 0; i < 3; ++i) CHECK(flat.p(0, i) == doctest::Approx(several[i] / 8));
}

TEST_CASE("equal templates leave attention unchanged") {
  const double templates[] = {3, 4, 3, 4, 3, 4};
  const double evidence[] = {0.5, -2};
  const double preference[] = {1, 2, 5};
  DualProblem problem;
  problem.templates = {templates, 3, 2};
  problem.evidence = {evidence, 1, 2};
  problem.preference = {preference, 1, 3};
  problem.alpha = 2;
  const SolvedDual found(problem, {});
  CHECK(found.summaries.front().status == DualStatus::converged);
  CHECK(found.lambda(0, 0) == 1);
  CHECK(found.lambda(0, 1) == -4);
  CHECK(found.h(0, 0) == 3);
  CHECK(found.h(0, 1) == 4);
}

TEST_CASE("invalid problems are refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto attempt = [](std::vector<double> t, std::vector<double> z, std::vector<double> u,
                          double alpha) {
    DualProblem problem;
    problem.templates = {t.data(), 2, 2};
    problem.evidence = {z.data(), 1, 2};
    problem.preference = {u.data(), 1, static_cast<Index>(u.size())};
    problem.alpha = alpha;
    return thrown_error([&] { SolvedDual(problem, {}); });
  };
  CHECK(attempt({1, 2, 3, nan}, {1, 1}, {1, 1}, 1).failure() == Failure::input);
  CHECK(attempt({1, 2, 3, 4}, {nan, 1}, {1, 1}, 1).failure() == Failure::input);
  CHECK(attempt({1, 2, 3, 4}, {1, 1}, {1, -1}, 1).failure() == Failure::input);
  CHECK(attempt({1, 2, 3, 4}, {1, 1}, {1, nan}, 1).failure() == Failure::input);
  CHECK(attempt({1, 2, 3, 4}, {1, 1}, {1, 1, 1}, 1).failure() == Failure::input);
  CHECK(attempt({1, 2, 3, 4}, {1e100, 1}, {1, 1}, 1e100).failure() == Failure::numerical);
}
