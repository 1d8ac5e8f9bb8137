#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attnkit/transport.hpp"
#include "feasibility/allowed_pairs.hpp"
#include "feasibility/feasibility.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "thrown_error.hpp"
#include "weights_observer.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

enum class Source { cost, scores, points };

struct TransportSetting {
  Source source = Source::cost;
  Shape first;   ///< of the cost, the scores, or x
  Shape second;  ///< of y
  Shape row_marginal;
  Shape col_marginal;
  Shape mask;
  TransportOptions options = {};
};

template <class T>
struct TransportArrays {
  TransportSetting setting;
  Array<T> first, second;
  Array<double> row_marginal, col_marginal;
  Array<std::uint8_t> mask;

  TransportArrays(const TransportSetting& given, Random& random)
      : setting(given),
        first(normal_array<T>(given.first, random)),
        row_marginal(given.row_marginal, 1.0),
        col_marginal(given.col_marginal, 1.0),
        mask(given.mask, 1) {
    if (given.source == Source::points) second = normal_array<T>(given.second, random);
    for (Array<double>* marginal : {&row_marginal, &col_marginal}) normalise(*marginal, random);
    for (std::size_t n = 1; n < mask.values.size(); n += 3) mask.values[n] = 0;
  }

  static void normalise(Array<double>& marginal, Random& random) {
    if (marginal.shape.empty()) return;
    const auto size = static_cast<std::size_t>(marginal.shape.back());
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (std::size_t block = 0; block < marginal.values.size(); block += size) {
      double total = 0;
      for (std::size_t n = 0; n < size; ++n) total += marginal.values[block + n] = uniform(random);
      for (std::size_t n = 0; n < size; ++n) marginal.values[block + n] /= total;
    }
  }

  TransportInputs<T> inputs() const {
    TransportInputs<T> in;
    if (setting.source == Source::cost) in.cost = first.view();
    if (setting.source == Source::scores) in.scores = first.view();
    if (setting.source == Source::points) {
      in.x = first.view();
      in.y = second.view();
    }
    if (!setting.mask.empty()) in.mask = mask.view();
    if (!setting.row_marginal.empty()) in.row_marginal = row_marginal.view();
    if (!setting.col_marginal.empty()) in.col_marginal = col_marginal.view();
    return in;
  }
};

template <class T>
struct FoundTransport {
  Array<double> row, col, row_sum, col_sum;
  Array<T> plan;
  TransportSummary summary;

  explicit FoundTransport(const TransportPlan<T>& made)
      : row(made.row_shape(), 7),
        col(made.col_shape(), 7),
        row_sum(made.row_shape(), 7),
        col_sum(made.col_shape(), 7),
        plan(made.plan_shape(), 7) {}

  TransportOutputs<T> outputs() {
    return {row.view(), col.view(), plan.view(), row_sum.view(), col_sum.view()};
  }
  bool operator==(const FoundTransport& other) const {
    return same_bits(row.values, other.row.values) && same_bits(col.values, other.col.values) &&
           same_bits(row_sum.values, other.row_sum.values) &&
           same_bits(col_sum.values, other.col_sum.values) &&
           same_bits(plan.values, other.plan.values);
  }
};

template <class T>
FoundTransport<T> run_plan(const TransportArrays<T>& arrays, int threads) {
  TransportPlan<T> plan(shapes_of(arrays.inputs()), arrays.setting.options, threads);
  FoundTransport<T> found(plan);
  found.summary = plan.run(arrays.inputs(), found.outputs());
  return found;
}

// One problem, computed by the functions that the plan uses, with its scores in memory.
template <class T>
SinkhornSolution solve_directly(const TransportArrays<T>& arrays, const Shape& leading,
                                Index problem, std::vector<Observer<T>*> observers) {
  const TransportSetting& setting = arrays.setting;
  const bool of_cost = setting.source != Source::scores;
  const MatrixView<const T> first = arrays.first.matrix(problem, leading);
  std::vector<T> values;
  std::optional<BroadcastMatrix<T>> source;
  std::unique_ptr<Energy<T>> energy;
  if (setting.source == Source::points) {
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
  const auto tolerance = tolerance_in_force(options, marginals.total(), sizeof(T));
  if (tolerance && !marginals.penalties) {
    options.tolerance = tolerance;
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
    const double unit = setting.source == Source::scores ? 1 : setting.options.epsilon;
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
    scores.source = Source::scores;
    scores.first = {m, n};
    check<T>(scores, random);
    scores.options.solver.iterations = 1;
    check<T>(scores, random);
    scores.options.solver.iterations = 4;
    check<T>(scores, random);
    TransportSetting points;
    points.source = Source::points;
    points.first = {2, 1, m, 3};
    points.second = {3, n, 3};
    points.options.epsilon = 2;
    points.options.solver.kept_bytes = n * 40;
    check<T>(points, random);
    for (TransportSetting* const setting : {&cost, &scores, &points}) {
      setting->options.penalties = {0.5, 3};
      check<T>(*setting, random);
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
  setting.source = Source::points;
  setting.first = {9, 2};
  setting.second = {7, 2};
  setting.mask = {2, 9, 7};
  setting.options.solver.iterations = 30;
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

TEST_CASE("transport plans meet their marginals and certify it") {
  Random random(903);
  TransportSetting setting;
  setting.source = Source::points;
  setting.first = {40, 2};
  setting.second = {30, 2};
  setting.row_marginal = {40};
  setting.options.epsilon = 0.5;
  const TransportArrays<double> arrays(setting, random);
  const FoundTransport<double> found = run_plan(arrays, 2);
  REQUIRE(found.summary.status() == TransportStatus::converged);
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
  setting.source = Source::points;
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
  CHECK(found.summary.status() == TransportStatus::infeasible);
  CHECK(found.summary.problems[0].status == TransportStatus::converged);
  const TransportProblem& bad = found.summary.problems[1];
  CHECK(bad.feasibility.prospect == Prospect::unequal_totals);
  CHECK(std::isnan(bad.gap));
  CHECK(found.plan.values[0] == doctest::Approx(0.25));
  CHECK(std::isnan(found.plan.values[4]));
  CHECK(std::isnan(found.row.values[2]));

  // This tolerance has room for the difference.
  TransportOptions options;
  options.solver.tolerance = 0.5;
  a.values[3] = 0.6;
  TransportPlan<double> loose(shapes_of(in), options, 1);
  const TransportSummary summary = loose.run(in, {});
  CHECK(summary.status() == TransportStatus::converged);
  CHECK(summary.problems[1].rescaled == doctest::Approx(0.1));
}

TEST_CASE("transport plans of empty problems and of no problems") {
  const Array<double> nothing({0, 3});
  TransportInputs<double> in;
  in.scores = nothing.view();
  TransportOptions options;
  options.solver.iterations = 3;
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
  options.solver.iterations = 0;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "iterations"));
  options.solver.iterations = 3;
  options.solver.anneals = true;
  CHECK(contains(message([&] { plan_of(shapes, options); }), "anneals"));
  for (const double penalty : {0.0, -1.0, infinity, std::nan("")}) {
    options = {};
    options.penalties = {1, penalty};
    CHECK(contains(message([&] { plan_of(shapes, options); }), "penalties.col is"));
  }
  options.penalties = {1, 1};
  plan_of(shapes, options);

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
  CHECK(contains(error.what(), "cost has -inf at (1, 0)"));
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
                 "problem (1): row_marginal has -1.000000 at (1)"));
  a.values[4] = 1.0 / 3;
  points.values[5] = infinity;
  CHECK(contains(message([&] { between.run(of_points, {}); }), "x has inf at (1, 2, 0)"));
}

TEST_CASE("two transport plans run at the same time, each many times") {
  Random random(904);
  TransportSetting first;
  first.source = Source::points;
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
