#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attnkit/transport.hpp"
#include "feasibility/allowed_pairs.hpp"
#include "feasibility/feasibility.hpp"
#include "infinity.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "thrown_error.hpp"
#include "transport_setting.hpp"
#include "weights_observer.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// One problem, computed by the functions that the plan uses, with its scores in memory.
template <class T>
SinkhornSolution solve_directly(const TransportArrays<T>& arrays, const Shape& leading,
                                Index problem, std::vector<Observer<T>*> observers) {
  const TransportSetting& setting = arrays.setting;
  const bool of_cost = setting.source != CostSource::scores;
  const MatrixView<const T> first = arrays.first.matrix(problem, leading);
  std::vector<T> values;
  std::optional<BroadcastMatrix<T>> source;
  std::unique_ptr<Energy<T>> energy;
  if (setting.source == CostSource::points) {
    energy =
        make_product_energy<T>(EnergyKind::gaussian, first, arrays.second.matrix(problem, leading),
                               2 / setting.options.epsilon);
  } else {
    double bound = 0;
    for (Index n = 0; n < first.rows * first.cols; ++n) {
      values.push_back(of_cost ? -first.data[n] : first.data[n]);
      if (!std::isinf(values.back())) {
        bound = std::max(bound, std::abs(static_cast<double>(values.back())));
      }
    }
    source.emplace(values.data(), first.cols, 1, bound);
    energy = make_stored_energy<T>(*source, first.rows, first.cols, 1,
                                   of_cost ? setting.options.epsilon : 1);
  }
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  std::vector<std::uint8_t> mask;
  std::optional<BroadcastMatrix<std::uint8_t>> mask_source;
  if (!setting.mask.empty()) {
    mask_source.emplace(arrays.mask.block(problem, leading, 2), energy->cols(), 1, 1);
    terms.mask = &*mask_source;
  }
  const Scores<T> scores(terms);
  Marginals marginals = of_cost ? uniform_marginals(scores.allowed_counts())
                                : attention_marginals(scores.allowed_counts());
  const auto take = [&](const Array<double>& given, PooledVector<double>& to) {
    if (given.shape.empty()) return;
    const double* const values_given = given.block(problem, leading, 1);
    to.assign(values_given, values_given + given.shape.back());
  };
  take(arrays.row_marginal, marginals.row);
  take(arrays.col_marginal, marginals.col);
  const double unit = of_cost ? setting.options.epsilon : 1;
  if (const auto& penalties = setting.options.penalties) {
    marginals.penalties = {penalties->row / unit, penalties->col / unit};
  }
  SinkhornOptions options = setting.options.solver;
  const auto tolerance = tolerance_in_force(options.stopping, marginals.total(), sizeof(T));
  if (tolerance && !marginals.penalties) {
    options.stopping.tolerance = tolerance;
    const Feasibility found = examine(allowed_pairs(scores, 1), marginals.row, marginals.col);
    if (found.row_total != found.col_total) {
      for (double& b : marginals.col) b *= found.row_total / found.col_total;
    }
  }
  return solve_sinkhorn(scores, marginals, options, observers, 1);
}

template <class T>
void check(const TransportSetting& setting, Random& random) {
  const TransportArrays<T> arrays(setting, random);
  const FoundTransport<T> found = run_plan(arrays, 1);
  CHECK((found == run_plan(arrays, 3)));
  TransportPlan<T> plan(shapes_of(arrays.inputs()), setting.options, 1);
  const Shape leading = plan.leading();
  const Index m = found.row.shape.back();
  const Index n = found.col.shape.back();
  REQUIRE(static_cast<Index>(found.summary.problems.size()) == element_count(leading));
  for (Index problem = 0; problem < element_count(leading); ++problem) {
    CAPTURE(problem);
    KeepWeights<T> weights;
    const SinkhornSolution expected = solve_directly<T>(arrays, leading, problem, {&weights});
    const TransportProblem& summary = found.summary.problems[static_cast<std::size_t>(problem)];
    CHECK(same_bits(found.row.values.data() + problem * m, expected.potentials.row.data(), m));
    CHECK(same_bits(found.col.values.data() + problem * n, expected.potentials.col.data(), n));
    CHECK(summary.iterations == expected.summary.iterations);
    CHECK(summary.errors == expected.errors);
    const double unit = setting.source == CostSource::scores ? 1 : setting.options.epsilon;
    CHECK(summary.dual == unit * expected.summary.dual);
    CHECK(summary.primal == unit * expected.summary.primal);
    double row_error = 0;
    for (Index i = 0; i < m; ++i) {
      double sum = 0;
      for (Index j = 0; j < n; ++j) {
        const T weight = found.plan.values[static_cast<std::size_t>((problem * m + i) * n + j)];
        CHECK(weight == weights.values[static_cast<std::size_t>(i * n + j)]);
        sum += static_cast<double>(weight);
      }
      const double known = found.row_sum.values[static_cast<std::size_t>(problem * m + i)];
      CHECK(known == doctest::Approx(sum).epsilon(sizeof(T) == 4 ? 1e-5 : 1e-12));
      row_error += std::abs(sum - known);
    }
    CHECK(row_error <= 1e-4);
  }
}

template <class T>
void check_all_sources(Random& random) {
  for (const auto& size : {std::pair<Index, Index>{1, 1}, {1, 5}, {3, 2}, {65, 33}, {7, 513}}) {
    const Index m = size.first;
    const Index n = size.second;
    CAPTURE(m);
    CAPTURE(n);
    TransportSetting cost;
    cost.first = {2, m, n};
    cost.row_marginal = {m};
    cost.col_marginal = {3, 1, n};
    cost.options.epsilon = 0.7;
    check<T>(cost, random);
    TransportSetting scores;
    scores.source = CostSource::scores;
    scores.first = {m, n};
    check<T>(scores, random);
    scores.options.solver.stopping.iterations = 1;
    check<T>(scores, random);
    scores.options.solver.stopping.iterations = 4;
    check<T>(scores, random);
    TransportSetting points;
    points.source = CostSource::points;
    points.first = {2, 1, m, 3};
    points.second = {3, n, 3};
    points.options.epsilon = 2;
    points.options.solver.tuning.kept_bytes = n * 40;
    check<T>(points, random);
    for (TransportSetting* const setting : {&cost, &scores, &points}) {
      for (const MarginalPenalties& penalties : {MarginalPenalties{0.5, 3}, {infinity, 2}}) {
        setting->options.penalties = penalties;
        check<T>(*setting, random);
      }
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("transport plans give the bits of each problem's own solution", T, float,
                   double) {
  Random random(901);
  check_all_sources<T>(random);
}

TEST_CASE("transport plans: masks broadcast, and forbidden pairs get nothing") {
  Random random(902);
  TransportSetting setting;
  setting.source = CostSource::points;
  setting.first = {9, 2};
  setting.second = {7, 2};
  setting.mask = {2, 9, 7};
  setting.options.solver.stopping.iterations = 30;
  check<double>(setting, random);

  const TransportArrays<double> arrays(setting, random);
  const FoundTransport<double> found = run_plan(arrays, 1);
  for (std::size_t n = 0; n < found.plan.values.size(); ++n) {
    CHECK((found.plan.values[n] > 0) == (arrays.mask.values[n] != 0));
  }

  // A mask of one row applies to all rows.
  TransportArrays<double> one_row(setting, random);
  one_row.setting.mask = {7};
  one_row.mask = Array<std::uint8_t>({7}, 1);
  one_row.mask.values[3] = 0;
  const FoundTransport<double> by_row = run_plan(one_row, 1);
  for (std::size_t n = 0; n < by_row.plan.values.size(); ++n) {
    CHECK((by_row.plan.values[n] > 0) == (n % 7 != 3));
  }
  CHECK(by_row.col_sum.values[3] == 0);
}

TEST_CASE("two transport plans run at the same time, each many times") {
  Random random(904);
  TransportSetting first;
  first.source = CostSource::points;
  first.first = {5, 33, 2};
  first.second = {40, 2};
  TransportSetting second;
  second.first = {3, 20, 17};
  const TransportArrays<double> points(first, random);
  const TransportArrays<float> costs(second, random);
  const FoundTransport<double> of_points = run_plan(points, 2);
  const FoundTransport<float> of_costs = run_plan(costs, 2);
  bool same_points = true;
  bool same_costs = true;
  at_the_same_time(
      [&] {
        TransportPlan<double> plan(shapes_of(points.inputs()), first.options, 2);
        for (int n = 0; n < 3; ++n) {
          FoundTransport<double> found(plan);
          plan.run(points.inputs(), found.outputs());
          same_points = same_points && found == of_points;
        }
      },
      [&] {
        TransportPlan<float> plan(shapes_of(costs.inputs()), second.options, 2);
        for (int n = 0; n < 3; ++n) {
          FoundTransport<float> found(plan);
          plan.run(costs.inputs(), found.outputs());
          same_costs = same_costs && found == of_costs;
        }
      });
  CHECK(same_points);
  CHECK(same_costs);
}

TEST_CASE_TEMPLATE("transport plans start from potentials of an earlier run", T, float, double) {
  Random random(905);
  for (const bool unbalanced : {false, true}) {
    CAPTURE(unbalanced);
    TransportSetting setting;
    setting.first = {2, 1, 9, 12};
    setting.row_marginal = {9};
    setting.col_marginal = {3, 12};
    setting.options.epsilon = 0.3;
    if (unbalanced) setting.options.penalties = {2, infinity};
    const TransportArrays<T> arrays(setting, random);
    TransportInputs<T> in = arrays.inputs();
    const FoundTransport<T> found = run_plan(arrays, 2);
    for (const TransportProblem& one : found.summary.problems) CHECK(one.iterations > 3);
    Array<double> start({2, 3, 12});
    // A start that was rounded is a solution to ten times the tolerance.
    TransportOptions rounded = setting.options;
    rounded.solver.stopping.tolerance = 10 * found.summary.problems[0].tolerance.value();
    const auto run = [&](double shift) {
      for (std::size_t n = 0; n < start.values.size(); ++n) {
        start.values[n] = found.col.values[n] + shift;
      }
      in.start = std::as_const(start).view();
      TransportPlan<T> plan(shapes_of(in), shift == 0 ? setting.options : rounded, 2);
      FoundTransport<T> again(plan);
      again.summary = plan.run(in, again.outputs());
      return again;
    };
    const double rounding = sizeof(T) == sizeof(float) ? 1e-6 : 1e-10;
    // The constant matters with penalties, and rounds potentials: 1e6 to 1e-10, 1e12 to 1e-4.
    for (const double shift :
         unbalanced ? std::vector<double>{0} : std::vector<double>{0, -1e6, 1e12}) {
      CAPTURE(shift);
      const FoundTransport<T> again = run(shift);
      for (std::size_t n = 0; n < again.summary.problems.size(); ++n) {
        CHECK(again.summary.problems[n].status == SolveStatus::converged);
        CHECK(again.summary.problems[n].iterations <=
              (shift == 1e12 ? found.summary.problems[n].iterations : 1));
      }
      for (std::size_t n = 0; n < again.plan.values.size(); ++n) {
        CHECK(std::abs(again.plan.values[n] - found.plan.values[n]) <= 10 * rounding);
      }
    }
    run(0);
    const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
    start.values[4] = std::nan("");
    TransportPlan<T> plan(shapes_of(in), setting.options, 2);
    CHECK(contains(message([&] { plan.run(in, {}); }), "start has nan at [0, 0, 4]"));
    start.values[4] = -infinity;
    CHECK(contains(message([&] { plan.run(in, {}); }), "to start from is -inf"));
    in.start = {start.values.data(), {2, 3, 11}};
    CHECK(contains(message([&] { TransportPlan<T>(shapes_of(in), setting.options, 1); }), "start"));
  }
}

TEST_CASE("transport plans refuse gradients of matrices beyond the range, and sums of these") {
  Array<float> cost({2, 2}, 0.0f), slopes({2, 2}, 3e38f), matrix({2, 2}, 0.0f);
  slopes.values[1] = slopes.values[2] = -3e38f;
  // Each is a quarter of 3e38/epsilon.
  for (const Index problems : {Index{1}, Index{5}}) {
    for (const double epsilon : {0.1, 1.0}) {
      CAPTURE(problems);
      CAPTURE(epsilon);
      const Array<double> masses({problems, 2}, 0.5);
      TransportInputs<float> in;
      in.cost = std::as_const(cost).view();
      in.grad_plan = std::as_const(slopes).view();
      in.row_marginal = masses.view();
      TransportOptions options;
      options.epsilon = epsilon;
      TransportPlan<float> plan(shapes_of(in), options, 1);
      TransportOutputs<float> out;
      out.through_solution.matrix = matrix.view();
      if (problems == 1 && epsilon == 1) {
        plan.run(in, out);
        CHECK(matrix.values[0] == doctest::Approx(-7.5e37));
        continue;
      }
      CHECK(contains(std::string(thrown_error([&] { plan.run(in, out); }).what()),
                     "through_solution.matrix is beyond the range of float32"));
    }
  }
}

TEST_CASE("transport plans refuse a start that has no effect") {
  const Array<double> cost({2, 2}, 1.0), g({2}, 0.0);
  TransportInputs<double> in;
  in.cost = cost.view();
  in.start = g.view();
  for (const int which : {0, 1, 2, 3}) {
    TransportOptions options;
    if (which == 0) options.exact = ExactOptions();
    if (which == 1) options.divergence = true;
    if (which == 2) options.solver.anneals = true;
    if (which == 3) options.gradient = SolutionGradient::unrolled;
    CHECK(contains(
        std::string(thrown_error([&] { TransportPlan<double>(shapes_of(in), options, 1); }).what()),
        "start has no effect"));
  }
}
