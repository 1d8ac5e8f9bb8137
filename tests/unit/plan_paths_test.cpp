#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "attnkit/basis_paths.hpp"
#include "path_problem.hpp"
#include "paths/basis.hpp"
#include "paths/step.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
Array<T> numbers(const Shape& shape, Numbers& make) {
  Array<T> array(shape);
  for (T& value : array.values) value = static_cast<T>(make());
  return array;
}

template <class T>
struct Weights {
  Array<T> wq, wk;

  Weights(const Shape& shape, Numbers& make)
      : wq(numbers<T>(shape, make)), wk(numbers<T>(shape, make)) {}

  PathWeights<T> views() { return {wq.view(), wk.view()}; }
  PathWeights<const T> views() const { return {wq.view(), wk.view()}; }
};

template <class T>
MatrixView<T> matrix(Array<T>& array, Index problem, Index rows, Index cols) {
  return {array.values.data() + problem * rows * cols, rows, cols};
}

template <class T>
void check_decomposition(Index rows, Index cols, int threads) {
  Numbers make(931);
  const Shape shape = {2, 3, rows, cols};
  const Weights<T> weights(shape, make);
  PathPlan<T> plan(shape, threads);
  const std::vector<Skeleton> skeletons = plan.largest_skeletons(weights.views());
  REQUIRE(skeletons.size() == 6);
  Array<T> values(plan.values_shape(), T{7});
  plan.decompose(weights.views(), skeletons, values.view());
  Array<T> of_skeleton(plan.skeleton_shape());
  for (Index problem = 0; problem < 6; ++problem) {
    const Shape leading = {2, 3};
    const MatrixView<const T> wq = weights.wq.matrix(problem, leading);
    const MatrixView<const T> wk = weights.wk.matrix(problem, leading);
    const Skeleton expected = largest_skeleton<T>(wq, wk);
    const Skeleton& skeleton = skeletons[static_cast<std::size_t>(problem)];
    CHECK(skeleton.q == expected.q);
    CHECK(skeleton.k == expected.k);
    Matrix<T> of_problem(2 * rows - 1, cols);
    basis_values<T>(wq, wk, expected, of_problem.view(), 1);
    CHECK(same_bits(values.values.data() + problem * (2 * rows - 1) * cols,
                    of_problem.values.data(), (2 * rows - 1) * cols));
    for (Index c = 0; c < cols; ++c) {
      of_skeleton.values[static_cast<std::size_t>(problem * cols + c)] = wk(skeleton.k_of(c), c);
    }
  }
  Weights<T> again(shape, make);
  const Array<T>& known_values = values;
  const Array<T>& known_skeleton = of_skeleton;
  plan.compose(known_values.view(), known_skeleton.view(), skeletons, again.views());
  const double bound = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t n = 0; n < weights.wq.values.size(); ++n) {
    CHECK(std::abs(again.wq.values[n] - weights.wq.values[n]) <=
          bound * std::abs(weights.wq.values[n]));
    CHECK(std::abs(again.wk.values[n] - weights.wk.values[n]) <=
          bound * std::abs(weights.wk.values[n]));
  }
}

// Three steps of each problem, computed separately.
template <class T>
void check_steps(Optimizer optimizer, Index rows, Index cols, int threads) {
  Numbers make(932);
  const Shape leading = {2, 3};
  const Shape shape = join(leading, {rows, cols});
  const Weights<T> start(shape, make);
  // The gradients of W_Q broadcast along the last leading axis.
  const Array<T> grad_wq = numbers<T>({2, 1, rows, cols}, make);
  const Array<T> grad_wk = numbers<T>(shape, make);
  PathPlan<T> plan(shape, threads);
  const std::vector<Skeleton> skeletons = plan.cyclic_skeletons();
  StepOptions options;
  options.optimizer = optimizer;
  options.rate = 0.01;
  Weights<T> weights = start;
  const bool moments = keeps_moments(optimizer);
  Array<T> first(plan.moments_shape(optimizer)), second(first);
  std::vector<StepSummary> summaries;
  for (Index n = 1; n <= 3; ++n) {
    options.number = n;
    summaries = plan.step(options, skeletons, {grad_wq.view(), grad_wk.view()}, weights.views(),
                          moments ? PathMoments<T>{first.view(), second.view()} : PathMoments<T>{});
  }
  REQUIRE(summaries.size() == 6);
  Weights<T> expected = start;
  for (Index problem = 0; problem < 6; ++problem) {
    const Index moment_rows = moments ? first.shape[2] : 0;
    Matrix<T> m(moment_rows, cols), v(moment_rows, cols);
    StepSummary summary;
    for (Index n = 1; n <= 3; ++n) {
      options.number = n;
      StepMatrices<T> matrices{matrix(expected.wq, problem, rows, cols),
                               matrix(expected.wk, problem, rows, cols),
                               grad_wq.matrix(problem, leading),
                               grad_wk.matrix(problem, leading),
                               m.view(),
                               v.view()};
      summary = step<T>(options, cyclic_skeleton(rows, 0, cols), matrices, 1);
    }
    const StepSummary& found = summaries[static_cast<std::size_t>(problem)];
    CHECK(found.singular.size() == summary.singular.size());
    CHECK(found.least_ratio == summary.least_ratio);
    CHECK(found.inconsistency == summary.inconsistency);
    CHECK(same_bits(first.values.data() + problem * moment_rows * cols, m.values.data(),
                    moment_rows * cols));
    CHECK(same_bits(second.values.data() + problem * moment_rows * cols, v.values.data(),
                    moment_rows * cols));
  }
  CHECK(same_bits(weights.wq.values, expected.wq.values));
  CHECK(same_bits(weights.wk.values, expected.wk.values));
  CHECK(!same_bits(weights.wq.values, start.wq.values));
}

}  // namespace

TEST_CASE_TEMPLATE("path plans decompose weights as each problem by itself", T, float, double) {
  for (const auto& size : path_sizes()) {
    const Index rows = size.first;
    const Index cols = size.second;
    CAPTURE(rows);
    CAPTURE(cols);
    for (const int threads : {1, 4}) check_decomposition<T>(rows, cols, threads);
  }
}

TEST_CASE_TEMPLATE("path plans step as each problem by itself", T, float, double) {
  for (const auto& size : path_sizes()) {
    const Index rows = size.first;
    const Index cols = size.second;
    CAPTURE(rows);
    CAPTURE(cols);
    for (const Optimizer optimizer : all_optimizers) {
      for (const int threads : {1, 8}) check_steps<T>(optimizer, rows, cols, threads);
    }
  }
}

TEST_CASE("path plans without problems or columns") {
  Numbers make(933);
  for (const Shape& shape : {Shape{0, 3, 2}, Shape{3, 0}}) {
    Weights<double> weights(shape, make);
    PathPlan<double> plan(shape, 2);
    const Weights<double>& known = weights;
    const std::vector<Skeleton> skeletons = plan.largest_skeletons(known.views());
    Array<double> values(plan.values_shape());
    plan.decompose(known.views(), skeletons, values.view());
    CHECK(values.values.empty());
    CHECK(plan.step({}, skeletons, known.views(), weights.views()).size() == skeletons.size());
  }
}

TEST_CASE("path plans refuse shapes, skeletons, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  CHECK(contains(message([] { PathPlan<float>({4}, 1); }), "at least 2 axes"));
  CHECK(contains(message([] { PathPlan<float>({0, 3}, 1); }), "expected rows"));
  CHECK(contains(message([] { PathPlan<float>({-1, 3}, 1); }), ">= 0"));
  CHECK(thrown_error([] { PathPlan<float>({2, 3}, 0); }).failure() == Failure::usage);

  Numbers make(934);
  Weights<double> weights({2, 3, 4}, make);
  Weights<double> gradients({2, 3, 4}, make);
  PathPlan<double> plan({2, 3, 4}, 1);
  const Weights<double>& known = weights;
  std::vector<Skeleton> skeletons = plan.cyclic_skeletons();
  const auto step_with = [&](const StepOptions& options, const PathMoments<double>& moments = {}) {
    plan.step(options, skeletons, gradients.views(), weights.views(), moments);
  };
  Array<double> values({2, 5, 3});
  CHECK(contains(message([&] { plan.decompose(known.views(), skeletons, values.view()); }),
                 "values is (2, 5, 3), expected (2, 5, 4)"));
  weights.wk.values[13] = std::nan("");
  CHECK(
      contains(message([&] { plan.largest_skeletons(known.views()); }), "wk has nan at [1, 0, 1]"));
  CHECK(contains(message([&] { plan.decompose(known.views(), skeletons, values.view()); }),
                 "wk has nan at [1, 0, 1]"));
  CHECK(contains(message([&] { step_with({}); }), "wk has nan at [1, 0, 1]"));
  weights.wk.values[13] = 1;
  skeletons[1].k[2] = 3;
  CHECK(contains(message([&] { step_with({}); }), "the skeleton of problem [1]"));
  skeletons[1].k.pop_back();
  CHECK(contains(message([&] { step_with({}); }), "the skeleton of problem [1]"));
  skeletons.pop_back();
  CHECK(contains(message([&] { step_with({}); }), "1 skeletons, expected 2"));
  skeletons = plan.cyclic_skeletons();
  StepOptions options;
  options.rate = 0;
  CHECK(contains(message([&] { step_with(options); }), "rate"));
  options = {};
  options.min_ratio = std::nan("");
  CHECK(contains(message([&] { step_with(options); }), "min_ratio"));
  options = {};
  options.optimizer = Optimizer::si_adam;
  CHECK(contains(message([&] { step_with(options); }), "the first moment"));
  Array<double> moments({2, 6, 4});
  CHECK(contains(message([&] {
                   step_with(options, {moments.view(), moments.view()});
                 }),
                 "the first moment is (2, 6, 4), expected (2, 5, 4)"));
  options.number = 0;
  CHECK(contains(message([&] { step_with(options); }), "number"));
  gradients.wq.shape = {3, 3, 4};
  CHECK(contains(message([&] { step_with({}); }), "grad_wq"));
  gradients.wq.shape = {2, 4, 3};
  CHECK(contains(message([&] { step_with({}); }), "grad_wq has the last axes (4, 3)"));
  gradients.wq.shape = {2, 3, 4};
  PathWeights<double> absent = weights.views();
  absent.wq.data = nullptr;
  CHECK(contains(message([&] { plan.step({}, skeletons, gradients.views(), absent); }),
                 "wq is without data"));
  step_with({});
}

TEST_CASE("two path plans run at the same time, each many times") {
  const auto train = [](const Shape& shape, unsigned seed) {
    Numbers make(seed);
    Weights<double> weights(shape, make);
    Weights<double> gradients(shape, make);
    PathPlan<double> plan(shape, 2);
    StepOptions options;
    options.rate = 1e-4;
    const std::vector<Skeleton> skeletons = plan.cyclic_skeletons();
    for (int n = 0; n < 20; ++n) {
      plan.step(options, skeletons, gradients.views(), weights.views());
    }
    return weights.wk.values;
  };
  const std::vector<double> wide = train({4, 3, 129}, 935);
  const std::vector<double> tall = train({6, 20, 5}, 936);
  std::vector<double> wide_again, tall_again;
  at_the_same_time(
      [&] {
        wide_again = train({4, 3, 129}, 935);
      },
      [&] {
        tall_again = train({6, 20, 5}, 936);
      });
  CHECK(same_bits(wide, wide_again));
  CHECK(same_bits(tall, tall_again));
}
