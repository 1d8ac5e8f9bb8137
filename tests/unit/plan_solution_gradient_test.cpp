#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "attnkit/transport.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"
#include "transport_setting.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// L = ½ Σ H π² + Σ X f + Σ Y g.
template <class T>
struct NumberOfSolution {
  Array<T> h, grad_plan;
  Array<double> x, y;

  NumberOfSolution(const TransportPlan<T>& plan, Random& random)
      : h(normal_array<T>(plan.plan_shape(), random)),
        grad_plan(plan.plan_shape()),
        x(normal_array<double>(plan.row_shape(), random, 0.1)),
        y(normal_array<double>(plan.col_shape(), random, 0.1)) {
    // What a constant of the potentials says is taken away.
    for (Array<double>* one : {&x, &y}) {
      double sum = 0;
      for (const double value : one->values) sum += value;
      for (double& value : one->values) value -= sum / static_cast<double>(one->values.size());
    }
  }

  double value(const FoundTransport<T>& found) const {
    double sum = 0;
    for (std::size_t n = 0; n < h.values.size(); ++n) {
      const auto one = static_cast<double>(found.plan.values[n]);
      sum += static_cast<double>(h.values[n]) * one * one / 2;
    }
    for (std::size_t n = 0; n < x.values.size(); ++n) sum += x.values[n] * found.row.values[n];
    for (std::size_t n = 0; n < y.values.size(); ++n) sum += y.values[n] * found.col.values[n];
    return sum;
  }

  void give_slopes(const FoundTransport<T>& at, TransportInputs<T>& in) {
    for (std::size_t n = 0; n < h.values.size(); ++n) {
      grad_plan.values[n] = h.values[n] * at.plan.values[n];
    }
    in.grad_plan = std::as_const(grad_plan).view();
    in.grad_row_potential = std::as_const(x).view();
    in.grad_col_potential = std::as_const(y).view();
  }
};

TransportSetting small_setting(CostSource source, bool unbalanced) {
  TransportSetting setting;
  setting.source = source;
  setting.first = source == CostSource::points ? Shape{5, 2} : Shape{5, 4};
  setting.second = {4, 2};
  setting.row_marginal = {5};
  setting.col_marginal = {4};
  if (source != CostSource::scores) setting.options.epsilon = 0.8;
  if (unbalanced) setting.options.penalties = {1.3, 0.6};
  setting.options.solver.stopping.tolerance = 1e-14;
  setting.options.solver.stopping.iterations = 100000;
  return setting;
}

}  // namespace

TEST_CASE("transport plans: gradients through the solution against differences") {
  Random random(971);
  for (const CostSource source : {CostSource::cost, CostSource::scores, CostSource::points}) {
    for (const bool unbalanced : {false, true}) {
      CAPTURE(static_cast<int>(source));
      CAPTURE(unbalanced);
      const TransportSetting setting = small_setting(source, unbalanced);
      TransportArrays<double> arrays(setting, random);
      TransportPlan<double> plain(shapes_of(arrays.inputs()), setting.options, 1);
      NumberOfSolution<double> number(plain, random);
      TransportInputs<double> in = arrays.inputs();
      number.give_slopes(run_plan(arrays, 1), in);
      TransportPlan<double> plan(shapes_of(in), setting.options, 2);
      const bool points = source == CostSource::points;
      Array<double> matrix({5, 4}, 7), by_a({5}, 7), by_b({4}, 7), by_x({5, 2}, 7), by_y({4, 2}, 7);
      TransportOutputs<double> outputs;
      outputs.through_solution = {
          .matrix = matrix.view(), .row_marginal = by_a.view(), .col_marginal = by_b.view()};
      if (points) {
        outputs.through_solution.x = by_x.view();
        outputs.through_solution.y = by_y.view();
      }
      const SolutionGradientFigures figures =
          plan.run(in, outputs).problems.front().through_solution;
      CHECK(figures.status == SolveStatus::converged);
      CHECK(figures.iterations > 0);
      CHECK(figures.residual <= 1e-10);

      constexpr double step = 1e-4;
      const auto slope = [&](double& moved, double* other) {
        const auto at = [&](double by) {
          moved += by;
          if (other != nullptr) *other -= by;
          const double value = number.value(run_plan(arrays, 1));
          moved -= by;
          if (other != nullptr) *other += by;
          return value;
        };
        return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      };
      // Errors of order step⁴, and of the solutions' over the step.
      const auto check = [&](Array<double>& given, const Array<double>& found) {
        for (std::size_t n = 0; n < given.values.size(); ++n) {
          CHECK(std::abs(found.values[n] - slope(given.values[n], nullptr)) <= 1e-7);
        }
      };
      if (points) {
        check(arrays.first, by_x);
        check(arrays.second, by_y);
      } else {
        check(arrays.first, matrix);
      }
      const auto check_masses = [&](Array<double>& given, const Array<double>& found) {
        for (std::size_t n = 1; n < given.values.size(); ++n) {
          const double want = slope(given.values[n], unbalanced ? nullptr : &given.values[0]);
          const double have = found.values[n] - (unbalanced ? 0 : found.values[0]);
          CHECK(std::abs(have - want) <= 1e-7);
        }
      };
      check_masses(arrays.row_marginal, by_a);
      check_masses(arrays.col_marginal, by_b);
    }
  }
}

TEST_CASE_TEMPLATE("transport plans: gradients of batches are those of each problem", T, float,
                   double) {
  Random random(972);
  TransportSetting setting;
  setting.source = CostSource::points;
  setting.first = {3, 40, 2};
  setting.second = {35, 2};
  setting.mask = {40, 35};
  TransportArrays<T> arrays(setting, random);
  TransportInputs<T> in = arrays.inputs();
  const Array<T> slope = normal_array<T>({3, 1, 35}, random);
  in.grad_plan = slope.view();
  const auto gradients = [&](const TransportInputs<T>& inputs, int threads) {
    TransportPlan<T> plan(shapes_of(inputs), setting.options, threads);
    Array<T> by_x(inputs.x.shape), matrix(plan.plan_shape(), 7);
    Array<double> by_b(plan.col_shape());
    TransportOutputs<T> outputs;
    outputs.through_solution = {
        .matrix = matrix.view(), .col_marginal = by_b.view(), .x = by_x.view()};
    const TransportSummary found = plan.run(inputs, outputs);
    for (const TransportProblem& one : found.problems) {
      CHECK(one.through_solution.status == SolveStatus::converged);
    }
    return std::tuple(by_x.values, matrix.values, by_b.values);
  };
  const auto all = gradients(in, 1);
  const auto threaded = gradients(in, 4);
  CHECK(same_nonempty_bits(std::get<0>(all), std::get<0>(threaded)));
  CHECK(same_nonempty_bits(std::get<1>(all), std::get<1>(threaded)));
  CHECK(same_nonempty_bits(std::get<2>(all), std::get<2>(threaded)));
  // The mask leaves out every third pair.
  for (std::size_t n = 1; n < std::size_t{40} * 35; n += 3) CHECK(std::get<1>(all)[n] == 0);
  CHECK(std::get<1>(all)[0] != 0);
  in.x = {in.x.data + 2 * 80, {40, 2}};
  in.grad_plan = {in.grad_plan.data + 2 * 35, {1, 35}};
  const auto last = gradients(in, 1);
  CHECK(std::equal(std::get<0>(last).begin(), std::get<0>(last).end(),
                   std::get<0>(all).begin() + 2 * 80));
  CHECK(std::equal(std::get<2>(last).begin(), std::get<2>(last).end(),
                   std::get<2>(all).begin() + 2 * 35));
}

TEST_CASE_TEMPLATE("transport plans: gradients by what problems share are summed", T, float,
                   double) {
  Random random(978);
  for (const CostSource source : {CostSource::cost, CostSource::points}) {
    CAPTURE(static_cast<int>(source));
    const bool points = source == CostSource::points;
    TransportSetting setting;
    setting.source = source;
    setting.options.penalties = {1.3, 0.6};
    setting.first = points ? Shape{2, 1, 7, 2} : Shape{2, 1, 7, 5};
    setting.second = {5, 2};
    setting.row_marginal = {3, 7};
    setting.col_marginal = {5};
    TransportArrays<T> arrays(setting, random);
    const Array<T> slope = normal_array<T>({2, 3, 7, 5}, random);
    struct Found {
      Array<T> matrix, x, y;
      Array<double> a, b;
    };
    const auto gradients = [&](const TransportInputs<T>& inputs, const Found& shapes, int threads) {
      Found found = shapes;
      TransportOutputs<T> outputs;
      outputs.through_solution = {.matrix = found.matrix.view(),
                                  .row_marginal = found.a.view(),
                                  .col_marginal = found.b.view()};
      if (points) {
        outputs.through_solution.x = found.x.view();
        outputs.through_solution.y = found.y.view();
      }
      TransportPlan<T> plan(shapes_of(inputs), setting.options, threads);
      plan.run(inputs, outputs);
      const std::vector<double> first = found.a.values;
      plan.run(inputs, outputs);  // sums begin anew
      CHECK(first == found.a.values);
      return found;
    };
    TransportInputs<T> in = arrays.inputs();
    in.grad_plan = slope.view();
    const Shape pairs = points ? Shape{2, 3, 7, 5} : Shape{2, 1, 7, 5};
    const Found shapes{Array<T>(pairs), Array<T>({2, 1, 7, 2}), Array<T>({5, 2}),
                       Array<double>({3, 7}), Array<double>({5})};
    const Found together = gradients(in, shapes, 1);
    for (const int threads : {2, 5}) {
      const Found again = gradients(in, shapes, threads);
      CHECK(same_nonempty_bits(again.matrix.values, together.matrix.values));
      CHECK(same_nonempty_bits(again.b.values, together.b.values));
      CHECK((!points || same_nonempty_bits(again.y.values, together.y.values)));
    }
    Found sums = shapes;
    const auto add = [](auto& to, const auto& values, std::size_t block) {
      for (std::size_t n = 0; n < values.values.size(); ++n) {
        to.values[block * values.values.size() + n] += values.values[n];
      }
    };
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        TransportInputs<T> one = in;
        (points ? one.x : one.cost) = {(points ? in.x : in.cost).data + i * (points ? 14 : 35),
                                       {7, points ? 2 : 5}};
        one.row_marginal = {in.row_marginal.data + j * 7, {7}};
        one.grad_plan = {in.grad_plan.data + (3 * i + j) * 35, {7, 5}};
        const Found alone = gradients(one,
                                      {Array<T>({7, 5}), Array<T>({7, 2}), Array<T>({5, 2}),
                                       Array<double>({7}), Array<double>({5})},
                                      1);
        add(sums.matrix, alone.matrix, points ? 3 * i + j : i);
        add(sums.x, alone.x, i);
        add(sums.y, alone.y, 0);
        add(sums.a, alone.a, j);
        add(sums.b, alone.b, 0);
      }
    }
    const double limit = sizeof(T) == sizeof(float) ? 1e-5 : 1e-13;
    const auto check = [&](const auto& have, const auto& want) {
      for (std::size_t n = 0; n < want.values.size(); ++n) {
        CHECK(std::abs(have.values[n] - want.values[n]) <= limit);
      }
    };
    check(together.matrix, sums.matrix);
    check(together.a, sums.a);
    check(together.b, sums.b);
    if (points) {
      check(together.x, sums.x);
      check(together.y, sums.y);
    }
    // A gradient of each problem has another shape.
    Found wrong = shapes;
    TransportOutputs<T> outputs;
    Array<double> by_problem({2, 3, 5});
    outputs.through_solution.col_marginal = by_problem.view();
    TransportPlan<T> plan(shapes_of(in), setting.options, 1);
    CHECK(contains(std::string(thrown_error([&] { plan.run(in, outputs); }).what()),
                   "through_solution.col_marginal is (2, 3, 5), expected (5)"));
  }
}

TEST_CASE("transport plans say that gradients are not at a solution") {
  Random random(975);
  for (const CostSource source : {CostSource::cost, CostSource::scores, CostSource::points}) {
    for (const bool unbalanced : {false, true}) {
      for (const bool enough : {false, true}) {
        TransportSetting setting = small_setting(source, unbalanced);
        setting.options.solver.stopping.tolerance.reset();
        setting.options.solver.stopping.iterations = enough ? 3000 : 1;
        TransportArrays<double> arrays(setting, random);
        const Array<double> slopes = normal_array<double>({5}, random);
        TransportInputs<double> in = arrays.inputs();
        in.grad_row_potential = slopes.view();
        Array<double> by_a({5});
        TransportOutputs<double> outputs;
        outputs.through_solution.row_marginal = by_a.view();
        TransportPlan<double> plan(shapes_of(in), setting.options, 1);
        const TransportProblem found = plan.run(in, outputs).problems.front();
        CHECK(found.status == SolveStatus::done);
        CHECK((found.through_solution.status == SolveStatus::converged) == enough);
        CHECK(found.through_solution.plan_error ==
              (enough ? 0 : found.row_error + found.col_error));
        // NaN, if Newton's steps do not get to the solution.
        CHECK((found.through_solution.error == 0) == enough);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gradients through many iterations are those through the solution", T, float,
                   double) {
  Random random(976);
  for (const CostSource source : {CostSource::cost, CostSource::points}) {
    TransportSetting setting = small_setting(source, false);
    setting.options.solver.stopping.tolerance.reset();
    setting.options.solver.stopping.iterations = 400;
    TransportArrays<T> arrays(setting, random);
    const Array<double> slopes = normal_array<double>({5}, random);
    TransportInputs<T> in = arrays.inputs();
    const auto gradients = [&](SolutionGradient kind, int threads) {
      setting.options.gradient = kind;
      TransportPlan<T> plan(shapes_of(in), setting.options, threads);
      const Array<T> g = [&] {
        Random same(977);
        return normal_array<T>(plan.plan_shape(), same);
      }();
      TransportInputs<T> with = in;
      with.grad_plan = g.view();
      TransportPlan<T> both(shapes_of(with), setting.options, threads);
      Array<T> by_points(with.x.data == nullptr ? plan.plan_shape() : with.x.shape);
      TransportOutputs<T> outputs;
      auto& to = outputs.through_solution;
      (with.x.data == nullptr ? to.matrix : to.x) = by_points.view();
      const TransportProblem found = both.run(with, outputs).problems.front();
      CHECK(found.through_solution.status == SolveStatus::converged);
      return by_points.values;
    };
    const auto limit = gradients(SolutionGradient::implicit, 1);
    const auto unrolled = gradients(SolutionGradient::unrolled, 1);
    for (std::size_t n = 0; n < limit.size(); ++n) {
      CHECK(std::abs(limit[n] - unrolled[n]) <= (sizeof(T) == sizeof(float) ? 2e-4 : 1e-8));
    }
    CHECK(same_nonempty_bits(unrolled, gradients(SolutionGradient::unrolled, 3)));
  }
}

TEST_CASE("transport plans refuse gradients through a solution that they do not have") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  Array<double> cost({3, 2}, 1.0), matrix({3, 2}), x({3, 1}), square({2, 2}, 1.0);
  Array<double> slope({2}, 1.0);
  TransportInputs<double> in;
  in.cost = std::as_const(cost).view();
  TransportOutputs<double> outputs;
  outputs.through_solution.matrix = matrix.view();
  TransportPlan<double> without(shapes_of(in), {}, 1);
  CHECK(contains(message([&] { without.run(in, outputs); }),
                 "requires grad_plan, grad_row_potential or grad_col_potential"));
  in.grad_col_potential = std::as_const(slope).view();
  TransportOptions exact;
  exact.exact = ExactOptions();
  CHECK(contains(message([&] { TransportPlan<double>(shapes_of(in), exact, 1); }),
                 "no effect with exact transport"));
  for (const int which : {0, 1, 2}) {
    TransportOptions unrolled;
    unrolled.gradient = SolutionGradient::unrolled;
    if (which == 0) unrolled.penalties = {1, 1};
    if (which == 1) unrolled.solver.relaxation = 1.5;
    if (which == 2) unrolled.solver.anneals = true;
    CHECK(contains(message([&] { TransportPlan<double>(shapes_of(in), unrolled, 1); }),
                   "plain iterations"));
  }
  TransportOptions divergence;
  divergence.divergence = true;
  TransportInputs<double> of_divergence = in;
  of_divergence.cost = std::as_const(square).view();
  of_divergence.grad_col_potential = {};
  of_divergence.grad_plan = std::as_const(cost).view();
  CHECK(contains(message([&] { TransportPlan<double>(shapes_of(of_divergence), divergence, 1); }),
                 "grad_plan"));
  of_divergence.grad_plan = {};
  of_divergence.grad_col_self_potential = std::as_const(slope).view();
  CHECK(contains(message([&] { TransportPlan<double>(shapes_of(of_divergence), {}, 1); }),
                 "grad_col_self_potential has no effect without a divergence"));
  TransportPlan<double> plan(shapes_of(in), {}, 1);
  outputs.through_solution.x = x.view();
  CHECK(contains(message([&] { plan.run(in, outputs); }), "require points"));
  outputs.through_solution.x = {};
  slope.values[1] = std::nan("");
  CHECK(contains(message([&] { plan.run(in, outputs); }), "grad_col_potential"));
  slope.values[1] = 1;
  const std::vector<double> a = {1, 1, 1}, b = {1, 1};
  in.row_marginal = {a.data(), {3}};
  in.col_marginal = {b.data(), {2}};
  TransportPlan<double> apart(shapes_of(in), {}, 1);
  CHECK(apart.run(in, outputs).status() == SolveStatus::infeasible);
  CHECK(std::isnan(matrix.values[0]));
  in.grad_row_potential = std::as_const(slope).view();
  CHECK(contains(message([&] { TransportPlan<double>(shapes_of(in), {}, 1); }),
                 "grad_row_potential"));
}
