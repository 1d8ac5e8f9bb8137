#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "attnkit/barycentre.hpp"
#include "infinity.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"
#include "transport_setting.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Histograms of sum 1, (…, K, n), and weights.
struct HistogramArrays {
  Array<double> masses, weights;

  HistogramArrays(const Shape& shape, Random& random)
      : masses(shape, 1), weights({shape[shape.size() - 2]}) {
    TransportArrays<double>::normalise(masses, random);
    std::uniform_real_distribution<double> uniform(0.5, 2);
    for (double& weight : weights.values) weight = uniform(random);
  }

  template <class T>
  void give_to(BarycentreInputs<T>& in) const {
    in.histograms = masses.view();
    in.weights = weights.view();
  }
};

BarycentrePlanOptions exactly(double epsilon) {
  BarycentrePlanOptions options;
  options.epsilon = epsilon;
  options.solver.stopping.tolerance = 1e-14;
  options.solver.stopping.iterations = 100000;
  return options;
}

struct FoundBarycentre {
  Array<double> p;
  BarycentreSummary summary;
};

FoundBarycentre run_barycentre(const BarycentreInputs<double>& in, double epsilon) {
  BarycentrePlan<double> plan(shapes_of(in), exactly(epsilon), 1);
  FoundBarycentre found{Array<double>(plan.barycentre_shape(), 7), {}};
  found.summary = plan.run(in, {.barycentre = found.p.view()});
  return found;
}

}  // namespace

TEST_CASE("barycentre plans find what no change makes better") {
  Random random(981);
  const HistogramArrays histograms({3, 7}, random);
  const Array<double> cost = normal_array<double>({6, 7}, random);
  BarycentreInputs<double> in;
  in.cost = cost.view();
  histograms.give_to(in);
  const FoundBarycentre found = run_barycentre(in, 0.7);
  const BarycentreResult& result = found.summary.problems.front();
  CHECK(found.summary.status() == SolveStatus::converged);
  CHECK(result.tolerance == 1e-14);
  CHECK(result.gap <= 1e-10);
  CHECK(result.errors.size() == static_cast<std::size_t>(result.iterations));
  // Σ_k w_k OT(p, a_k), each by itself.
  const auto value = [&](const std::vector<double>& p) {
    double sum = 0;
    double weights = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      TransportInputs<double> one;
      one.cost = cost.view();
      one.row_marginal = {p.data(), {6}};
      one.col_marginal = {histograms.masses.values.data() + 7 * k, {7}};
      TransportOptions options;
      options.epsilon = 0.7;
      TransportPlan<double> plan(shapes_of(one), options, 1);
      sum += histograms.weights.values[k] * plan.run(one, {}).problems.front().dual;
      weights += histograms.weights.values[k];
    }
    return sum / weights;
  };
  CHECK(value(found.p.values) == doctest::Approx(result.dual).epsilon(1e-9));
  std::vector<double> other = found.p.values;
  other[0] -= 0.01;
  other[1] += 0.01;
  CHECK(value(other) > result.dual + 1e-6);
}

TEST_CASE("barycentre plans: gradients against differences") {
  Random random(982);
  const std::vector<double> h = {0.5, -1, 0.3, 2, -0.4};
  for (const CostSource source : {CostSource::cost, CostSource::scores, CostSource::points}) {
    CAPTURE(static_cast<int>(source));
    const bool points = source == CostSource::points;
    const double epsilon = source == CostSource::scores ? 1 : 0.8;
    Array<double> first = normal_array<double>(points ? Shape{5, 2} : Shape{5, 4}, random);
    Array<double> second = normal_array<double>({4, 2}, random);
    HistogramArrays histograms({3, 4}, random);
    BarycentreInputs<double> in;
    (points                       ? in.x
     : source == CostSource::cost ? in.cost
                                  : in.scores) = std::as_const(first).view();
    if (points) in.y = std::as_const(second).view();
    histograms.give_to(in);
    BarycentreInputs<double> with_slope = in;
    with_slope.grad_barycentre = {h.data(), {5}};
    BarycentrePlan<double> plan(shapes_of(with_slope), exactly(epsilon), 2);
    struct Gradients {
      Array<double> matrix{{5, 4}, 7}, histograms{{3, 4}, 7}, weights{{3}, 7}, x{{5, 2}, 7},
          y{{4, 2}, 7};

      BarycentreGradients<double> views(bool of_points) {
        BarycentreGradients<double> all{
            .matrix = matrix.view(), .histograms = histograms.view(), .weights = weights.view()};
        if (of_points) all.x = x.view();
        if (of_points) all.y = y.view();
        return all;
      }
    };
    Gradients optimum, through;
    const BarycentreResult result =
        plan.run(with_slope,
                 {.optimum = optimum.views(points), .through_barycentre = through.views(points)})
            .problems.front();
    CHECK(result.through_barycentre.status == SolveStatus::converged);
    CHECK(result.through_barycentre.residual <= 1e-10);

    constexpr double step = 1e-4;
    // Differences of the fourth order: slopes of the optimum and of L = ⟨h, p⟩.
    const auto slopes = [&](const std::function<void(double)>& move) {
      double at[2][4];
      for (int n = 0; n < 4; ++n) {
        const double by = step * (n < 2 ? n - 2 : n - 1);
        move(by);
        const FoundBarycentre found = run_barycentre(in, epsilon);
        move(-by);
        at[0][n] = found.summary.problems.front().dual;
        at[1][n] = 0;
        for (std::size_t i = 0; i < 5; ++i) at[1][n] += h[i] * found.p.values[i];
      }
      const auto slope = [&](const double* along) {
        return (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * step);
      };
      return std::pair(slope(at[0]), slope(at[1]));
    };
    const auto check = [&](std::vector<double>& values, const std::vector<double>& of_optimum,
                           const std::vector<double>& of_number, std::size_t line) {
      for (std::size_t n = 0; n < values.size(); ++n) {
        // Within a histogram, mass moves from its first bin.
        const std::size_t from = line == 0 ? n : n / line * line;
        const auto [optimal, number] = slopes([&](double by) {
          values[n] += by;
          if (from != n) values[from] -= by;
        });
        if (line > 0 && from == n) continue;
        const double less = from == n ? 0 : 1;
        CHECK(std::abs(of_optimum[n] - less * of_optimum[from] - optimal) <= 1e-7);
        CHECK(std::abs(of_number[n] - less * of_number[from] - number) <= 1e-7);
      }
    };
    if (points) {
      check(first.values, optimum.x.values, through.x.values, 0);
      check(second.values, optimum.y.values, through.y.values, 0);
    } else {
      check(first.values, optimum.matrix.values, through.matrix.values, 0);
    }
    check(histograms.weights.values, optimum.weights.values, through.weights.values, 0);
    check(histograms.masses.values, optimum.histograms.values, through.histograms.values, 4);
  }
}

TEST_CASE_TEMPLATE("barycentre plans: batches are each problem alone, and threads keep bits", T,
                   float, double) {
  Random random(983);
  const HistogramArrays histograms({2, 3, 40}, random);
  const Array<T> x = normal_array<T>({2, 33, 2}, random), y = normal_array<T>({40, 2}, random);
  const Array<double> slope = normal_array<double>({33}, random);
  BarycentreInputs<T> in;
  in.x = x.view();
  in.y = y.view();
  histograms.give_to(in);
  in.grad_barycentre = slope.view();
  const auto run = [&](const BarycentreInputs<T>& inputs, int threads) {
    BarycentrePlanOptions options;
    options.solver.tuning.kept_bytes = threads == 1 ? 0 : 1 << 20;
    BarycentrePlan<T> plan(shapes_of(inputs), options, threads);
    Array<double> p(plan.barycentre_shape()), by_a(plan.histogram_shape());
    Array<T> by_x(inputs.x.shape);
    BarycentreOutputs<T> to;
    to.barycentre = p.view();
    to.through_barycentre = {.histograms = by_a.view(), .x = by_x.view()};
    CHECK(plan.run(inputs, to).status() == SolveStatus::converged);
    CHECK(plan.workspace_bytes() > 0);
    return std::tuple(p.values, by_a.values, by_x.values);
  };
  const auto all = run(in, 1);
  const auto threaded = run(in, 4);
  CHECK(same_nonempty_bits(std::get<0>(all), std::get<0>(threaded)));
  CHECK(same_nonempty_bits(std::get<1>(all), std::get<1>(threaded)));
  CHECK(same_nonempty_bits(std::get<2>(all), std::get<2>(threaded)));
  in.x = {in.x.data + 66, {33, 2}};
  in.histograms = {in.histograms.data + 120, {3, 40}};
  const auto last = run(in, 1);
  CHECK(std::equal(std::get<0>(last).begin(), std::get<0>(last).end(),
                   std::get<0>(all).begin() + 33));
  CHECK(std::equal(std::get<1>(last).begin(), std::get<1>(last).end(),
                   std::get<1>(all).begin() + 120));
  CHECK(std::equal(std::get<2>(last).begin(), std::get<2>(last).end(),
                   std::get<2>(all).begin() + 66));
}

TEST_CASE("barycentre plans refuse what has no barycentre") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  Random random(984);
  HistogramArrays histograms({2, 4}, random);
  Array<double> cost = normal_array<double>({3, 4}, random);
  const Array<double> slope({3}, 1.0);
  BarycentreInputs<double> in;
  in.cost = std::as_const(cost).view();
  const auto making = [&](const BarycentreInputs<double>& of,
                          const BarycentrePlanOptions& options) {
    return message([&] { BarycentrePlan<double>(shapes_of(of), options, 1); });
  };
  CHECK(contains(making(in, {}), "expected histograms"));
  histograms.give_to(in);
  CHECK(contains(making(in, {.epsilon = 0}), "epsilon is"));
  BarycentrePlanOptions none;
  none.solver.stopping.iterations = 0;
  CHECK(contains(making(in, none), "iterations is 0"));
  BarycentreInputs<double> other = in;
  other.cost.shape = {0, 4};
  CHECK(contains(making(other, {}), "no places"));
  other = in;
  other.weights.shape = {3};
  CHECK(contains(making(other, {}), "weights"));
  other = in;
  other.histograms.shape = {4, 2};
  CHECK(contains(making(other, {}), "histograms"));
  other = in;
  other.scores = std::exchange(other.cost, {});
  CHECK(contains(making(other, {.epsilon = 2}), "scores are taken as they are"));

  BarycentrePlan<double> plan(shapes_of(in), {}, 1);
  Array<double> p({3}, 7), x({3, 1}), by({3, 4}, 7);
  const auto running = [&](const BarycentreOutputs<double>& to) {
    return message([&] { plan.run(in, to); });
  };
  BarycentreOutputs<double> to;
  to.through_barycentre.matrix = by.view();
  CHECK(contains(running(to), "through_barycentre requires grad_barycentre"));
  to = {};
  to.optimum.x = x.view();
  CHECK(contains(running(to), "require points"));
  cost.values[5] = infinity;
  CHECK(contains(running({}), "a finite cost of every pair"));
  cost.values[5] = 1;
  histograms.weights.values = {0, 0};
  CHECK(contains(running({}), "weights adds up to 0"));
  histograms.weights.values = {1, -1};
  CHECK(contains(running({}), "weights"));
  histograms.weights.values = {1, 1};
  histograms.masses.values[0] += 0.5;
  to = {.barycentre = p.view()};
  to.optimum.matrix = by.view();
  CHECK(plan.run(in, to).status() == SolveStatus::infeasible);
  CHECK(std::isnan(p.values[2]));
  CHECK(std::isnan(by.values[11]));
  histograms.masses.values[0] = std::nan("");
  CHECK(contains(running({}), "histograms"));
}
