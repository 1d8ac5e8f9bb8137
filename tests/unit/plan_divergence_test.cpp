#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "attnkit/transport.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

TransportOptions divergence_options(double epsilon) {
  TransportOptions options;
  options.epsilon = epsilon;
  options.divergence = true;
  options.solver.stopping.tolerance = 1e-12;
  options.solver.stopping.iterations = 100000;
  return options;
}

double divergence_of(const TransportInputs<double>& in, double epsilon) {
  TransportPlan<double> plan(shapes_of(in), divergence_options(epsilon), 1);
  return plan.run(in, {}).problems.front().divergence.value;
}

// OT = min ⟨P, C⟩ + ε KL(P ‖ a bᵀ) of transport that is not a divergence.
double entropic_value(TransportInputs<double> in, double epsilon, const std::vector<double>& a,
                      const std::vector<double>& b) {
  TransportOptions options = divergence_options(epsilon);
  options.divergence = false;
  in.row_marginal = {a.data(), {static_cast<Index>(a.size())}};
  in.col_marginal = {b.data(), {static_cast<Index>(b.size())}};
  TransportPlan<double> plan(shapes_of(in), options, 1);
  double entropy = 0;
  double total = 0;
  for (const double one : a) {
    entropy -= one * std::log(one);
    total += one;
  }
  for (const double one : b) entropy -= one * std::log(one);
  // Σ P (log P − 1) has the constants −Σ P and, for exact marginals, Σ a log a + Σ b log b less.
  return plan.run(in, {}).problems.front().dual + epsilon * (entropy + total);
}

std::vector<double> masses(Index count, Random& random) {
  std::vector<double> made(static_cast<std::size_t>(count));
  std::uniform_real_distribution<double> uniform(0.2, 1);
  double sum = 0;
  for (double& one : made) sum += one = uniform(random);
  for (double& one : made) one /= sum;
  return made;
}

}  // namespace

TEST_CASE("divergence plans combine three problems, and bound their value") {
  Random random(961);
  const Array<double> x = normal_array<double>({6, 2}, random);
  const Array<double> y = normal_array<double>({4, 2}, random);
  const std::vector<double> a = masses(6, random), b = masses(4, random);
  for (const double epsilon : {0.3, 2.0}) {
    TransportInputs<double> in;
    in.x = x.view();
    in.y = y.view();
    in.row_marginal = {a.data(), {6}};
    in.col_marginal = {b.data(), {4}};
    TransportInputs<double> of_x = in, of_y = in;
    of_x.y = x.view();
    of_y.x = y.view();
    const double expected = entropic_value(in, epsilon, a, b) -
                            entropic_value(of_x, epsilon, a, a) / 2 -
                            entropic_value(of_y, epsilon, b, b) / 2;
    TransportPlan<double> plan(shapes_of(in), divergence_options(epsilon), 1);
    const TransportProblem found = plan.run(in, {}).problems.front();
    CHECK(found.status == SolveStatus::converged);
    CHECK(std::abs(found.divergence.value - expected) <= 1e-9);
    CHECK(found.divergence.value > 0);
    CHECK(found.divergence.lower <= expected + 1e-9);
    CHECK(found.divergence.upper >= expected - 1e-9);
    CHECK(std::isfinite(found.divergence.sharp));
    TransportOptions plain = divergence_options(epsilon);
    plain.divergence = false;
    TransportPlan<double> between(shapes_of(in), plain, 1);
    CHECK(std::isnan(between.run(in, {}).problems.front().divergence.value));
    in.y = x.view();
    in.col_marginal = in.row_marginal;
    CHECK(std::abs(divergence_of(in, epsilon)) <= 1e-10);
  }
}

TEST_CASE("divergence plans differentiate by points and by masses") {
  Random random(962);
  Array<double> x = normal_array<double>({5, 2}, random);
  Array<double> y = normal_array<double>({4, 2}, random);
  std::vector<double> a = masses(5, random), b = masses(4, random);
  TransportInputs<double> in;
  in.x = std::as_const(x).view();
  in.y = std::as_const(y).view();
  in.row_marginal = {a.data(), {5}};
  in.col_marginal = {b.data(), {4}};
  TransportPlan<double> plan(shapes_of(in), divergence_options(0.7), 3);
  Array<double> by_x(x.shape), by_y(y.shape), by_a({5}), by_b({4});
  plan.run(in, {.row_marginal_gradient = by_a.view(),
                .col_marginal_gradient = by_b.view(),
                .x_gradient = by_x.view(),
                .y_gradient = by_y.view()});
  constexpr double step = 1e-5;
  const auto slope = [&](const auto& move) {
    move(step);
    const double above = divergence_of(in, 0.7);
    move(-2 * step);
    const double below = divergence_of(in, 0.7);
    move(step);
    return (above - below) / (2 * step);
  };
  // Errors of differences of the second order, and of the solutions over the step.
  for (std::size_t n = 0; n < 10; ++n) {
    CHECK(std::abs(by_x.values[n] - slope([&](double by) { x.values[n] += by; })) <= 1e-6);
  }
  for (std::size_t n = 0; n < 8; ++n) {
    CHECK(std::abs(by_y.values[n] - slope([&](double by) { y.values[n] += by; })) <= 1e-6);
  }
  // Masses move from one point to another.
  for (std::size_t n = 1; n < 5; ++n) {
    const double found = by_a.values[n] - by_a.values[0];
    CHECK(std::abs(found - slope([&](double by) {
                     a[n] += by;
                     a[0] -= by;
                   })) <= 1e-6);
  }
  for (std::size_t n = 1; n < 4; ++n) {
    const double found = by_b.values[n] - by_b.values[0];
    CHECK(std::abs(found - slope([&](double by) {
                     b[n] += by;
                     b[0] -= by;
                   })) <= 1e-6);
  }
}

// L = ⟨x, f⟩ + ⟨y, g⟩ over the potentials between both sides, with Σ x = Σ y = 0, and over those of
// a side with itself.
TEST_CASE("divergence plans differentiate through their potentials") {
  Random random(964);
  for (const auto& setting :
       {std::pair(true, false), {false, false}, {true, true}, {false, true}}) {
    const bool of_points = setting.first;
    const bool unbalanced = setting.second;
    CAPTURE(of_points);
    CAPTURE(unbalanced);
    TransportOptions options = divergence_options(0.7);
    if (unbalanced) options.penalties = {0.9, 0.9};
    const Index n = of_points ? 4 : 5;
    Array<double> x = normal_array<double>({5, 2}, random);
    Array<double> y = normal_array<double>({n, 2}, random);
    Array<double> cost({5, 5});
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        cost.values[5 * i + j] = cost.values[5 * j + i] = std::abs(x.values[2 * i] * x.values[j]);
      }
    }
    std::vector<double> a = masses(5, random), b = masses(n, random);
    TransportInputs<double> in;
    if (of_points) {
      in.x = std::as_const(x).view();
      in.y = std::as_const(y).view();
    } else {
      in.cost = std::as_const(cost).view();
    }
    in.row_marginal = {a.data(), {5}};
    in.col_marginal = {b.data(), {n}};
    std::vector<double> of_f = {1, -2, 0.5, 0.25, 0.25}, of_g(static_cast<std::size_t>(n));
    of_g[0] = 2;
    of_g[1] = -2;
    const Array<double> own_f = normal_array<double>({5}, random);
    const Array<double> own_g = normal_array<double>({n}, random);
    TransportInputs<double> with_slopes = in;
    with_slopes.grad_row_potential = {of_f.data(), {5}};
    with_slopes.grad_col_potential = {of_g.data(), {n}};
    with_slopes.grad_row_self_potential = own_f.view();
    with_slopes.grad_col_self_potential = own_g.view();
    TransportPlan<double> plain(shapes_of(in), options, 1);
    TransportPlan<double> plan(shapes_of(with_slopes), options, 2);
    Array<double> by_x({5, 2}), by_y({n, 2}), by_a({5}), by_b({n}), by_cost({5, 5});
    SolutionGradients<double> through = {.row_marginal = by_a.view(), .col_marginal = by_b.view()};
    if (of_points) {
      through.x = by_x.view();
      through.y = by_y.view();
    } else {
      through.matrix = by_cost.view();
    }
    const SolutionGradientFigures figures =
        plan.run(with_slopes, {.through_solution = through}).problems.front().through_solution;
    CHECK(figures.status == SolveStatus::converged);
    CHECK(figures.residual <= 1e-10);
    const auto number = [&] {
      Array<double> f({5}), g({n}), self_f({5}), self_g({n});
      plain.run(in, {.row_potential = f.view(),
                     .col_potential = g.view(),
                     .row_self_potential = self_f.view(),
                     .col_self_potential = self_g.view()});
      double sum = 0;
      for (std::size_t i = 0; i < 5; ++i) {
        sum += of_f[i] * f.values[i] + own_f.values[i] * self_f.values[i];
      }
      for (std::size_t j = 0; j < of_g.size(); ++j) {
        sum += of_g[j] * g.values[j] + own_g.values[j] * self_g.values[j];
      }
      return sum;
    };
    constexpr double step = 1e-4;
    const auto slope = [&](double& up, double* down, double sign) {
      const auto at = [&](double by) {
        up += by;
        if (down != nullptr) *down += sign * by;
        const double value = number();
        up -= by;
        if (down != nullptr) *down -= sign * by;
        return value;
      };
      return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    };
    // The differences are of the fourth order; the errors of solutions count over the step.
    constexpr double limit = 1e-5;
    if (unbalanced) CHECK(std::abs(by_a.values[0] - slope(a[0], nullptr, 0)) <= limit);
    for (std::size_t i = 1; i < 5; ++i) {
      CHECK(std::abs(by_a.values[i] - by_a.values[0] - slope(a[i], &a[0], -1)) <= limit);
    }
    for (std::size_t j = 1; j < of_g.size(); ++j) {
      CHECK(std::abs(by_b.values[j] - by_b.values[0] - slope(b[j], &b[0], -1)) <= limit);
    }
    for (std::size_t at = 0; of_points && at < by_x.values.size(); ++at) {
      CHECK(std::abs(by_x.values[at] - slope(x.values[at], nullptr, 0)) <= limit);
    }
    for (std::size_t at = 0; of_points && at < by_y.values.size(); ++at) {
      CHECK(std::abs(by_y.values[at] - slope(y.values[at], nullptr, 0)) <= limit);
    }
    for (std::size_t i = 0; !of_points && i < 5; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        double& below = cost.values[5 * i + j];
        double& above = cost.values[5 * j + i];
        const double have = by_cost.values[5 * i + j] + by_cost.values[5 * j + i];
        CHECK(std::abs(have - slope(below, &above, 1)) <= limit);
      }
    }
  }
}

TEST_CASE_TEMPLATE("divergence plans of a common support, and their batches", T, float, double) {
  Random random(963);
  const Array<T> points = normal_array<T>({9, 2}, random);
  Array<T> cost({9, 9});
  for (std::size_t i = 0; i < 9; ++i) {
    for (std::size_t j = 0; j < 9; ++j) {
      for (std::size_t c = 0; c < 2; ++c) {
        const T away = points.values[2 * i + c] - points.values[2 * j + c];
        cost.values[9 * i + j] += away * away;
      }
    }
  }
  std::vector<double> a = masses(9, random);
  const std::vector<double> more = masses(9, random), b = masses(9, random);
  a.insert(a.end(), more.begin(), more.end());
  TransportInputs<T> in;
  in.cost = std::as_const(cost).view();
  in.row_marginal = {a.data(), {2, 9}};
  in.col_marginal = {b.data(), {9}};
  TransportOptions options = divergence_options(0.5);
  options.solver.stopping.tolerance = 1e-6;
  TransportPlan<T> plan(shapes_of(in), options, 1);
  TransportPlan<T> threads(shapes_of(in), options, 4);
  Array<double> row(plan.row_shape()), again(plan.row_shape());
  const TransportSummary found = plan.run(in, {.row_marginal_gradient = row.view()});
  threads.run(in, {.row_marginal_gradient = again.view()});
  CHECK(same_bits(row.values, again.values));
  REQUIRE(found.problems.size() == 2);
  for (std::size_t n = 0; n < 2; ++n) {
    const TransportProblem& one = found.problems[n];
    CHECK(one.status == SolveStatus::converged);
    TransportInputs<T> of_points;
    of_points.x = of_points.y = points.view();
    of_points.row_marginal = {a.data() + 9 * n, {9}};
    of_points.col_marginal = {b.data(), {9}};
    TransportPlan<T> same(shapes_of(of_points), options, 1);
    CHECK(same.run(of_points, {}).problems.front().divergence.value ==
          doctest::Approx(one.divergence.value).epsilon(1e-4));
  }
}

TEST_CASE("divergence plans refuse what a divergence does not have") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  Array<double> cost({3, 3}, 1.0);
  TransportInputs<double> in;
  in.cost = std::as_const(cost).view();
  const TransportOptions options = divergence_options(1);
  const auto plan_of = [&](const TransportInputs<double>& inputs, const TransportOptions& given) {
    return message([&] { TransportPlan<double>(shapes_of(inputs), given, 1); });
  };
  TransportInputs<double> other = in;
  other.cost.shape = {9, 1};
  CHECK(contains(plan_of(other, options), "square cost of a common support, not (9, 1)"));
  other = {};
  other.scores = in.cost;
  CHECK(contains(plan_of(other, options), "requires a cost or points"));
  const std::vector<std::uint8_t> mask(9, 1);
  other = in;
  other.mask = {mask.data(), {3, 3}};
  CHECK(contains(plan_of(other, options), "without a mask"));
  TransportOptions with_penalties = options;
  with_penalties.penalties = {1, 2};
  CHECK(contains(plan_of(in, with_penalties), "equal penalties"));
  with_penalties.penalties = {1, 1};
  TransportPlan<double> plan(shapes_of(in), options, 1);
  Array<double> sums({3});
  CHECK(contains(message([&] { plan.run(in, {.row_sum = sums.view()}); }), "no plan and no sums"));
  cost.values[1] = 2;
  CHECK(contains(message([&] { plan.run(in, {}); }), "symmetric"));
  cost.values[1] = 1;
  const std::vector<double> a = {1, 1, 2};
  in.row_marginal = {a.data(), {3}};
  const std::vector<double> b = {1, 1, 1};
  in.col_marginal = {b.data(), {3}};
  for (const bool fixed : {false, true}) {
    TransportOptions unequal = options;
    if (fixed) unequal.solver.stopping.tolerance.reset();
    unequal.solver.stopping.iterations = 20;
    TransportPlan<double> apart(shapes_of(in), unequal, 1);
    const TransportSummary found = apart.run(in, {});
    CHECK(found.status() == SolveStatus::infeasible);
    CHECK(std::isnan(found.problems.front().divergence.value));
  }
  // With penalties a and b may have other sums, here 4 and 3. With all costs, ε and ρ 1, a plan has
  // the mass m with m³ = e⁻¹ (Σ a Σ b)², and OT is Σ a + Σ b − 3m + Σ a Σ b.
  TransportPlan<double> soft(shapes_of(in), with_penalties, 1);
  const auto value = [](double x, double y) {
    return x + y - 3 * std::cbrt(std::exp(-1.0) * x * x * y * y);
  };
  CHECK(soft.run(in, {}).problems.front().divergence.value ==
        doctest::Approx(value(4, 3) - (value(4, 4) + value(3, 3)) / 2).epsilon(1e-9));
}
