#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "attnkit/transport.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

struct ExactFound {
  Array<double> row, col, plan, row_sum, col_sum, by_a, by_b;
  TransportSummary summary;
};

template <class T>
ExactFound solve_exact_plan(const TransportInputs<T>& in, const TransportOptions& options,
                            int threads) {
  TransportPlan<T> plan(shapes_of(in), options, threads);
  ExactFound found;
  for (Array<double>* const one : {&found.row, &found.row_sum, &found.by_a}) {
    *one = Array<double>(plan.row_shape(), 7);
  }
  for (Array<double>* const one : {&found.col, &found.col_sum, &found.by_b}) {
    *one = Array<double>(plan.col_shape(), 7);
  }
  Array<T> shown(plan.plan_shape(), T{7});
  found.summary = plan.run(in, {.row_potential = found.row.view(),
                                .col_potential = found.col.view(),
                                .plan = shown.view(),
                                .row_sum = found.row_sum.view(),
                                .col_sum = found.col_sum.view(),
                                .row_marginal_gradient = found.by_a.view(),
                                .col_marginal_gradient = found.by_b.view()});
  found.plan = Array<double>(shown.shape);
  std::copy(shown.values.begin(), shown.values.end(), found.plan.values.begin());
  return found;
}

// The least cost of an assignment.
double least_assignment(const Array<double>& cost, Index problem, Index n) {
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    double sum = 0;
    for (Index i = 0; i < n; ++i) {
      const Index at = (problem * n + i) * n + order[static_cast<std::size_t>(i)];
      sum += cost.values[static_cast<std::size_t>(at)];
    }
    least = std::min(least, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return least / static_cast<double>(n);
}

}  // namespace

TEST_CASE("exact plans find the best assignment, with bounds and marginals that hold") {
  Random random(951);
  using Case = std::pair<Index, ExactMethod>;
  for (const Case& one : {Case{1, ExactMethod::automatic}, Case{2, ExactMethod::simplex},
                          Case{6, ExactMethod::simplex}, Case{1, ExactMethod::annealing},
                          Case{6, ExactMethod::annealing}}) {
    const Index n = one.first;
    const ExactMethod method = one.second;
    CAPTURE(n);
    Array<double> cost = normal_array<double>({2, n, n}, random);
    for (double& c : cost.values) c *= c;
    TransportInputs<double> in;
    in.cost = std::as_const(cost).view();
    TransportOptions options;
    options.exact = ExactOptions{.gap = 1e-5, .method = method};
    const ExactFound found = solve_exact_plan(in, options, 1);
    const ExactFound again = solve_exact_plan(in, options, 5);
    CHECK(same_bits(found.plan.values, again.plan.values));
    CHECK(same_bits(found.row.values, again.row.values));
    for (Index problem = 0; problem < 2; ++problem) {
      const auto at = static_cast<std::size_t>(problem);
      const TransportProblem& solved = found.summary.problems[at];
      const double least = least_assignment(cost, problem, n);
      CHECK(solved.status == SolveStatus::converged);
      CHECK(solved.exact_method ==
            (method == ExactMethod::annealing ? method : ExactMethod::simplex));
      CHECK(solved.dual <= least * (1 + 1e-12));
      CHECK(solved.value >= least * (1 - 1e-12));
      CHECK(solved.value == solved.primal);
      CHECK(solved.gap <= 1e-5 * solved.value + 1e-300);
      CHECK(solved.mass == doctest::Approx(1));
      for (Index i = 0; i < n; ++i) {
        const auto line = at * static_cast<std::size_t>(n) + static_cast<std::size_t>(i);
        // Exponents of hundreds at the last ε: each weight has a rounding of about 1e-13 of itself.
        CHECK(std::abs(found.row_sum.values[line] - 1.0 / static_cast<double>(n)) <= 1e-13);
        CHECK(std::abs(found.col_sum.values[line] - 1.0 / static_cast<double>(n)) <= 1e-13);
        CHECK(found.by_a.values[line] == -found.row.values[line]);
        for (Index j = 0; j < n; ++j) {
          const auto pair = line * static_cast<std::size_t>(n) + static_cast<std::size_t>(j);
          const auto col = at * static_cast<std::size_t>(n) + static_cast<std::size_t>(j);
          CHECK(cost.values[pair] + found.row.values[line] + found.col.values[col] >= -1e-13);
        }
      }
    }
  }
}

namespace {

template <class T>
void check_points(ExactMethod method) {
  Random random(952);
  const Array<T> x = normal_array<T>({5, 2}, random);
  const Array<T> y = normal_array<T>({7, 2}, random);
  TransportInputs<T> in;
  in.x = x.view();
  in.y = y.view();
  TransportOptions options;
  options.exact = ExactOptions{.gap = 1e-3, .method = method};
  TransportPlan<T> plan(shapes_of(in), options, 2);
  Array<T> by_x(x.shape, T{7}), by_y(y.shape, T{7}), shown(plan.plan_shape());
  const TransportSummary summary =
      plan.run(in, {.plan = shown.view(), .x_gradient = by_x.view(), .y_gradient = by_y.view()});
  const TransportProblem& found = summary.problems.front();
  CHECK(found.status == SolveStatus::converged);
  const double limit = sizeof(T) == sizeof(float) ? 1e-5 : 1e-13;
  double value = 0;
  std::vector<double> of_y(14, 0.0);
  for (std::size_t i = 0; i < 5; ++i) {
    double of_x[2] = {};
    for (std::size_t j = 0; j < 7; ++j) {
      const double mass = shown.values[7 * i + j];
      for (std::size_t c = 0; c < 2; ++c) {
        const double away = static_cast<double>(x.values[2 * i + c]) - y.values[2 * j + c];
        value += mass * away * away;
        of_x[c] += 2 * mass * away;
        of_y[2 * j + c] -= 2 * mass * away;
      }
    }
    for (std::size_t c = 0; c < 2; ++c) CHECK(std::abs(by_x.values[2 * i + c] - of_x[c]) <= limit);
  }
  for (std::size_t n = 0; n < 14; ++n) CHECK(std::abs(by_y.values[n] - of_y[n]) <= limit);
  CHECK(std::abs(found.value - value) <= limit * (1 + value));

  Array<T> scores({5, 7});
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 7; ++j) {
      T sum = 0;
      for (std::size_t c = 0; c < 2; ++c) {
        const T away = x.values[2 * i + c] - y.values[2 * j + c];
        sum -= away * away;
      }
      scores.values[7 * i + j] = sum;
    }
  }
  // With scores the marginals sum to the number of rows.
  const std::vector<double> a(5, 0.2), b(7, 1.0 / 7);
  TransportInputs<T> ready;
  ready.scores = std::as_const(scores).view();
  ready.row_marginal = {a.data(), {5}};
  ready.col_marginal = {b.data(), {7}};
  TransportPlan<T> of_scores(shapes_of(ready), options, 1);
  const TransportProblem same = of_scores.run(ready, {}).problems.front();
  CHECK(same.status == SolveStatus::converged);
  CHECK(same.value == doctest::Approx(-found.value).epsilon(2e-3));
  CHECK(same.dual <= found.value * (1 + limit));
}

}  // namespace

TEST_CASE_TEMPLATE("exact plans of points: derivatives, and scores in place of a cost", T, float,
                   double) {
  check_points<T>(ExactMethod::simplex);
  check_points<T>(ExactMethod::annealing);
}

TEST_CASE("exact plans choose their method by the bytes of a matrix") {
  Random random(955);
  const Array<double> cost = normal_array<double>({70, 80}, random);
  TransportInputs<double> in;
  in.cost = cost.view();
  TransportOptions options;
  for (const auto& [bytes, method] :
       {std::pair<std::int64_t, ExactMethod>{70 * 80 * 8, ExactMethod::annealing},
        {std::int64_t{1} << 20, ExactMethod::simplex}}) {
    options.exact = ExactOptions{.gap = 0.1, .simplex_bytes = bytes};
    TransportPlan<double> plan(shapes_of(in), options, 1);
    CHECK(plan.run(in, {}).problems.front().exact_method == method);
  }
}

TEST_CASE("exact plans: a least cost of 0, and bounds that keep their order") {
  Random random(953);
  TransportOptions options;
  options.exact.emplace();
  const Array<double> points = normal_array<double>({40, 2}, random);
  Array<double> moved({40, 2});
  for (std::size_t n = 0; n < 40; ++n) {
    for (std::size_t c = 0; c < 2; ++c) {
      moved.values[n * 2 + c] = points.values[n * 7 % 40 * 2 + c];
    }
  }
  TransportInputs<double> in;
  in.x = points.view();
  in.y = std::as_const(moved).view();
  const TransportProblem none = solve_exact_plan(in, options, 1).summary.problems.front();
  CHECK(none.status == SolveStatus::converged);
  CHECK(none.value <= 1e-12);
  CHECK(none.gap >= 0);
  for (const double constant : {1.0, -0.1, 3e7}) {
    const Array<double> same({292, 2}, constant);
    in = {};
    in.cost = same.view();
    const TransportProblem equal = solve_exact_plan(in, options, 1).summary.problems.front();
    CHECK(equal.status == SolveStatus::converged);
    CHECK(equal.gap >= 0);
    CHECK(equal.dual <= equal.value);
  }
}

TEST_CASE("exact plans say whether rounding limits them") {
  Random random(954);
  Array<double> cost = normal_array<double>({12, 15}, random);
  TransportInputs<double> in;
  in.cost = std::as_const(cost).view();
  TransportOptions options;
  options.exact = ExactOptions{.gap = 1e-12, .method = ExactMethod::annealing, .max_iterations = 5};
  const TransportProblem few = solve_exact_plan(in, options, 1).summary.problems.front();
  CHECK(few.status == SolveStatus::not_converged);
  CHECK_FALSE(few.limited_by_rounding);
  // Most of the cost is the same for all pairs, whose differences float32 barely shows.
  Array<float> close({12, 15});
  for (std::size_t n = 0; n < close.values.size(); ++n) {
    close.values[n] = 100 + static_cast<float>(cost.values[n]);
  }
  TransportInputs<float> in_float;
  in_float.cost = std::as_const(close).view();
  options.exact = ExactOptions{.gap = 1e-9, .method = ExactMethod::annealing};
  const TransportProblem limited = solve_exact_plan(in_float, options, 1).summary.problems.front();
  CHECK(limited.limited_by_rounding == (limited.status == SolveStatus::not_converged));
}

TEST_CASE("exact plans: what is infeasible, unfinished or refused") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  Array<double> cost({2, 2}, 1.0);
  cost.values[1] = 3;
  const std::vector<double> a = {1, 2}, b = {1, 1};
  TransportInputs<double> in;
  in.cost = std::as_const(cost).view();
  in.row_marginal = {a.data(), {2}};
  in.col_marginal = {b.data(), {2}};
  TransportOptions options;
  options.exact.emplace();
  const ExactFound unequal = solve_exact_plan(in, options, 1);
  CHECK(unequal.summary.status() == SolveStatus::infeasible);
  CHECK(std::isnan(unequal.summary.problems.front().value));
  CHECK(std::isnan(unequal.plan.values.front()));
  in.row_marginal = {b.data(), {2}};
  options.exact->method = ExactMethod::annealing;
  options.exact->max_iterations = 1;
  options.exact->gap = 1e-9;
  Array<double> uneven({2, 2});
  uneven.values = {1, 3, 4, 1.5};
  in.cost = std::as_const(uneven).view();
  CHECK(solve_exact_plan(in, options, 1).summary.status() == SolveStatus::not_converged);
  uneven.values[2] = infinity;
  CHECK(thrown_error([&] { solve_exact_plan(in, options, 1); }).failure() == Failure::input);
  options.exact->method = ExactMethod::simplex;
  const ExactFound sparse = solve_exact_plan(in, options, 1);
  CHECK(sparse.summary.status() == SolveStatus::converged);
  CHECK(sparse.plan.values == std::vector<double>{1, 0, 0, 1});
  CHECK(sparse.summary.problems.front().value == 2.5);
  uneven.values[0] = infinity;
  CHECK(solve_exact_plan(in, options, 1).summary.status() == SolveStatus::infeasible);
  uneven.values = {1, 3, 4, 1.5};

  const auto refuse = [&](const auto& change, const char* words) {
    TransportOptions wrong;
    wrong.exact.emplace();
    change(wrong);
    CHECK(contains(message([&] { TransportPlan<double>(shapes_of(in), wrong, 1); }), words));
  };
  refuse([](TransportOptions& wrong) { wrong.exact->gap = 0; }, "exact.gap is");
  refuse([](TransportOptions& wrong) { wrong.exact->gap = std::nan(""); }, "exact.gap is");
  refuse([](TransportOptions& wrong) { wrong.exact->max_iterations = 0; },
         "exact.max_iterations is");
  refuse([](TransportOptions& wrong) { wrong.exact->relaxation = 2; }, "exact.relaxation is");
  refuse([](TransportOptions& wrong) { wrong.exact->simplex_bytes = -1; },
         "exact.simplex_bytes is");
  refuse([](TransportOptions& wrong) { wrong.exact->tuning.kept_bytes = -1; },
         "exact.tuning.kept_bytes is");
  const char* const neither = "neither epsilon, solver";
  refuse([](TransportOptions& wrong) { wrong.epsilon = 0.1; }, neither);
  refuse([](TransportOptions& wrong) { wrong.solver.stopping.tolerance = 1e-3; }, neither);
  refuse([](TransportOptions& wrong) { wrong.penalties = {1, 1}; }, neither);
  refuse([](TransportOptions& wrong) { wrong.divergence = true; }, neither);
}
