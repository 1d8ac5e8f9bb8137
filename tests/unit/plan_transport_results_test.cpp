#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "attnkit/transport.hpp"
#include "infinity.hpp"
#include "thrown_error.hpp"
#include "transport_setting.hpp"

using namespace attn;
using namespace attn::testing;

TEST_CASE("transport plans meet their marginals and certify it") {
  Random random(903);
  TransportSetting setting;
  setting.source = CostSource::points;
  setting.first = {40, 2};
  setting.second = {30, 2};
  setting.row_marginal = {40};
  setting.options.epsilon = 0.5;
  const TransportArrays<double> arrays(setting, random);
  const FoundTransport<double> found = run_plan(arrays, 2);
  REQUIRE(found.summary.status() == SolveStatus::converged);
  const TransportProblem& summary = found.summary.problems.front();
  CHECK(summary.tolerance == 1e-10);
  CHECK(summary.row_error + summary.col_error <= 1e-10);
  CHECK(summary.gap >= 0);
  CHECK(summary.gap <= 1e-8);
  double total = 0;
  double cost = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 30; ++j) {
      double distance = 0;
      for (std::size_t c = 0; c < 2; ++c) {
        distance += std::pow(arrays.first.values[2 * i + c] - arrays.second.values[2 * j + c], 2);
      }
      cost += distance * found.plan.values[30 * i + j];
      total += found.plan.values[30 * i + j];
    }
  }
  CHECK(summary.value == doctest::Approx(cost).epsilon(1e-10));
  CHECK(total == doctest::Approx(1).epsilon(1e-9));
  for (const double sum : found.col_sum.values) CHECK(sum == doctest::Approx(1.0 / 30));
}

TEST_CASE_TEMPLATE("transport plans: derivatives of the dual are those of the plan that is shown",
                   T, float, double) {
  Random random(906);
  TransportSetting setting;
  setting.source = CostSource::points;
  setting.first = {2, 65, 3};
  setting.second = {35, 3};
  setting.mask = {65, 35};
  setting.row_marginal = {65};
  setting.options.epsilon = 0.7;
  for (const bool unbalanced : {false, true}) {
    if (unbalanced) setting.options.penalties = {0.5, 3};
    const TransportArrays<T> arrays(setting, random);
    TransportPlan<T> plan(shapes_of(arrays.inputs()), setting.options, 1);
    FoundTransport<T> found(plan);
    TransportOutputs<T> outputs = found.outputs();
    Array<double> by_a(plan.row_shape(), 7), by_b(plan.col_shape(), 7);
    Array<T> by_x({2, 65, 3}, 7), by_y({2, 35, 3}, 7);
    outputs.row_marginal_gradient = by_a.view();
    outputs.col_marginal_gradient = by_b.view();
    outputs.x_gradient = by_x.view();
    outputs.y_gradient = by_y.view();
    plan.run(arrays.inputs(), outputs);
    TransportPlan<T> threaded(shapes_of(arrays.inputs()), setting.options, 3);
    const Array<T> alone = by_x;
    threaded.run(arrays.inputs(), outputs);
    CHECK(same_bits(alone.values, by_x.values));
    for (std::size_t p = 0; p < 2; ++p) {
      for (std::size_t i = 0; i < 65; ++i) {
        const double f = found.row.values[p * 65 + i];
        const double by_row = unbalanced ? 0.5 * (1 - std::exp(0.7 * f / 0.5)) : -0.7 * f;
        CHECK(by_a.values[p * 65 + i] == doctest::Approx(by_row));
        for (std::size_t c = 0; c < 3; ++c) {
          double sum = 0;
          for (std::size_t j = 0; j < 35; ++j) {
            sum += 2 * static_cast<double>(found.plan.values[(p * 65 + i) * 35 + j]) *
                   (static_cast<double>(arrays.first.values[(p * 65 + i) * 3 + c]) -
                    static_cast<double>(arrays.second.values[j * 3 + c]));
          }
          CHECK(by_x.values[(p * 65 + i) * 3 + c] ==
                doctest::Approx(sum).epsilon(sizeof(T) == 4 ? 1e-4 : 1e-11));
        }
      }
      for (std::size_t j = 0; j < 35; ++j) {
        const double g = found.col.values[p * 35 + j];
        const double by_col = unbalanced ? 3 * (1 - std::exp(0.7 * g / 3)) : -0.7 * g;
        CHECK(by_b.values[p * 35 + j] == doctest::Approx(by_col));
        double sum = 0;
        for (std::size_t i = 0; i < 65; ++i) {
          sum += 2 * static_cast<double>(found.plan.values[(p * 65 + i) * 35 + j]) *
                 (static_cast<double>(arrays.second.values[j * 3]) -
                  static_cast<double>(arrays.first.values[(p * 65 + i) * 3]));
        }
        CHECK(by_y.values[(p * 35 + j) * 3] ==
              doctest::Approx(sum).epsilon(sizeof(T) == 4 ? 1e-4 : 1e-11));
      }
    }
  }
  TransportSetting cost;
  cost.first = {3, 2};
  const TransportArrays<T> arrays(cost, random);
  TransportPlan<T> plan(shapes_of(arrays.inputs()), {}, 1);
  Array<T> by_x({3, 2});
  TransportOutputs<T> outputs;
  outputs.x_gradient = by_x.view();
  CHECK(contains(thrown_error([&] { plan.run(arrays.inputs(), outputs); }).what(),
                 "x_gradient and y_gradient require points"));
}

TEST_CASE("transport plans: marginals that no plan has are a status, not an error") {
  TransportInputs<double> in;
  const Array<double> cost({2, 2, 2}, 1.0);
  Array<double> a({2, 2}, 0.5);
  a.values[3] = 0.7;
  const Array<double> b({2}, 0.5);
  in.cost = cost.view();
  in.row_marginal = a.view();
  in.col_marginal = b.view();
  TransportPlan<double> plan(shapes_of(in), {}, 2);
  FoundTransport<double> found(plan);
  found.summary = plan.run(in, found.outputs());
  CHECK(found.summary.status() == SolveStatus::infeasible);
  CHECK(found.summary.problems[0].status == SolveStatus::converged);
  const TransportProblem& bad = found.summary.problems[1];
  CHECK(bad.feasibility.prospect == Prospect::unequal_totals);
  CHECK(std::isnan(bad.gap));
  CHECK(found.plan.values[0] == doctest::Approx(0.25));
  CHECK(std::isnan(found.plan.values[4]));
  CHECK(std::isnan(found.row.values[2]));

  // This tolerance has room for the difference.
  TransportOptions options;
  options.solver.stopping.tolerance = 0.5;
  a.values[3] = 0.6;
  TransportPlan<double> loose(shapes_of(in), options, 1);
  const TransportSummary summary = loose.run(in, {});
  CHECK(summary.status() == SolveStatus::converged);
  CHECK(summary.problems[1].rescaled == doctest::Approx(0.1));
}

TEST_CASE("transport plans of empty problems and of no problems") {
  const Array<double> nothing({0, 3});
  TransportInputs<double> in;
  in.scores = nothing.view();
  TransportOptions options;
  options.solver.stopping.iterations = 3;
  TransportPlan<double> plan(shapes_of(in), options, 2);
  FoundTransport<double> found(plan);
  CHECK(plan.run(in, found.outputs()).problems.size() == 1);
  for (const double g : found.col.values) CHECK(g == -infinity);
  const Array<double> none({0, 2, 2});
  in.scores = none.view();
  TransportPlan<double> of_none(shapes_of(in), {}, 2);
  CHECK(of_none.run(in, {}).problems.empty());
}

TEST_CASE("transport plans refuse shapes, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  const auto plan_of = [](const TransportShapes& shapes, const TransportOptions& options = {},
                          int threads = 1) { TransportPlan<float>(shapes, options, threads); };
  TransportShapes shapes;
  CHECK(contains(message([&] { plan_of(shapes); }), "exactly one of cost, scores, and x with y"));
  shapes.x = Shape{3, 2};
  CHECK(contains(message([&] { plan_of(shapes); }), "exactly one"));
  shapes.y = Shape{4, 3};
  CHECK(contains(message([&] { plan_of(shapes); }), "y has the last axes (4, 3)"));
  shapes.y = Shape{4, 2};
  plan_of(shapes);
  shapes.cost = Shape{3, 4};
  CHECK(contains(message([&] { plan_of(shapes); }), "exactly one"));
  shapes = {};
  shapes.cost = Shape{4};
  CHECK(contains(message([&] { plan_of(shapes); }), "at least 2 axes"));
  shapes.cost = Shape{2, 3, 4};
  shapes.row_marginal = Shape{4};
  CHECK(contains(message([&] { plan_of(shapes); }), "row_marginal has the last axes (4)"));
  shapes.row_marginal = Shape{3};
  shapes.col_marginal = Shape{3, 4};
  CHECK(contains(message([&] { plan_of(shapes); }), "do not broadcast"));
  shapes.col_marginal = Shape{2, 4};
  shapes.mask = Shape{2, 4};
  CHECK(contains(message([&] { plan_of(shapes); }), "mask has the last axes (2, 4)"));
  shapes.mask = Shape{3, 1};
  plan_of(shapes);
  CHECK(thrown_error([&] { plan_of(shapes, {}, 0); }).failure() == Failure::usage);
  for (const double epsilon : {0.0, -1.0, infinity, std::nan("")}) {
    TransportOptions options;
    options.epsilon = epsilon;
    CHECK(contains(message([&] { plan_of(shapes, options); }), "epsilon is"));
  }
  TransportOptions options;
  options.solver.relaxation = 2;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "relaxation"));
  options = {};
  options.solver.stopping.iterations = 0;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "iterations"));
  options.solver.stopping.iterations = 3;
  options.solver.anneals = true;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "anneals"));
  for (const double penalty : {0.0, -1.0, std::nan("")}) {
    options = {};
    options.penalties = {1, penalty};
    CHECK(contains(message([&] { plan_of(shapes, options); }), "penalties.col is"));
  }
  for (const double penalty : {0x1p32, 1e300}) {
    options.penalties = {penalty, penalty};
    CHECK(contains(message([&] { plan_of(shapes, options); }), "at most 2^30 epsilon"));
  }
  for (const double penalty : {1.0, 0x1p31}) {
    options.penalties = {penalty, penalty};
    plan_of(shapes, options);
  }
  options.penalties = {infinity, infinity};
  CHECK(contains(message([&] { plan_of(shapes, options); }), "both penalties are infinite"));
  for (const MarginalPenalties& penalties : {MarginalPenalties{1, 1e300}, {infinity, 1}}) {
    options.penalties = penalties;
    plan_of(shapes, options);
  }
  options.penalties = {1, 1};

  TransportInputs<double> in;
  Array<double> cost({2, 2}, 1.0);
  in.cost = cost.view();
  TransportPlan<double> plan(shapes_of(in), {}, 1);
  in.cost.shape = {1, 4};
  CHECK(
      contains(message([&] { plan.run(in, {}); }), "cost is (1, 4), the plan was made for (2, 2)"));
  in.cost = {};
  CHECK(contains(message([&] { plan.run(in, {}); }), "cost is absent"));
  in.cost = cost.view();
  in.scores = cost.view();
  CHECK(contains(message([&] { plan.run(in, {}); }), "scores is (2, 2)"));
  in.scores = {};
  Array<double> sums({3});
  TransportOutputs<double> out;
  out.row_sum = sums.view();
  CHECK(contains(message([&] { plan.run(in, out); }), "the output row_sum is (3), expected (2)"));
  cost.values[2] = -infinity;
  const Error error = thrown_error([&] { plan.run(in, {}); });
  CHECK(error.failure() == Failure::input);
  CHECK(contains(error.what(), "cost has -inf at [1, 0]"));
  cost.values[2] = 1;
  plan.run(in, {});

  Array<double> points({2, 3, 1}, 1.0);
  Array<double> a({2, 3}, 1.0 / 3);
  a.values[4] = -1;
  TransportInputs<double> of_points;
  of_points.x = of_points.y = points.view();
  of_points.row_marginal = a.view();
  TransportPlan<double> between(shapes_of(of_points), {}, 1);
  CHECK(contains(message([&] { between.run(of_points, {}); }),
                 "problem [1]: row_marginal has -1.000000 at [1]"));
  a.values[4] = 1.0 / 3;
  points.values[5] = infinity;
  CHECK(contains(message([&] { between.run(of_points, {}); }), "x has inf at [1, 2, 0]"));
}
