#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

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

  PathInputs<T> inputs() const { return {.wq = wq.view(), .wk = wk.view()}; }
  PathInputs<T> inputs(const Weights& gradients) const {
    return {wq.view(), wk.view(), gradients.wq.view(), gradients.wk.view()};
  }
  PathOutputs<T> outputs() { return {.wq = wq.view(), .wk = wk.view()}; }
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
  PathInputs<T> in = weights.inputs();
  PathPlan<T> plan(shapes_of(in), {}, threads);
  in.skeletons = plan.largest_skeletons(in);
  const std::vector<Skeleton>& skeletons = in.skeletons;
  REQUIRE(skeletons.size() == 6);
  Array<T> values(plan.values_shape(), T{7});
  plan.run(in, {.values = values.view()});
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
  plan.compose({known_values.view(), known_skeleton.view(), skeletons}, again.wq.view(),
               again.wk.view());
  const double bound = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t n = 0; n < weights.wq.values.size(); ++n) {
    CHECK(std::abs(again.wq.values[n] - weights.wq.values[n]) <=
          bound * std::abs(weights.wq.values[n]));
    CHECK(std::abs(again.wk.values[n] - weights.wk.values[n]) <=
          bound * std::abs(weights.wk.values[n]));
  }
}

// Three steps of each problem, computed separately. The first is from one array to another, the
// later ones are in place.
template <class T>
void check_steps(Optimizer optimizer, Index rows, Index cols, int threads) {
  Numbers make(932);
  const Shape leading = {2, 3};
  const Shape shape = join(leading, {rows, cols});
  const Weights<T> start(shape, make);
  // The gradients of W_Q broadcast along the last leading axis.
  const Array<T> grad_wq = numbers<T>({2, 1, rows, cols}, make);
  const Array<T> grad_wk = numbers<T>(shape, make);
  StepOptions options;
  options.optimizer = optimizer;
  options.rate = 0.01;
  PathInputs<T> in = start.inputs();
  in.grad_wq = grad_wq.view();
  in.grad_wk = grad_wk.view();
  PathPlan<T> plan(shapes_of(in), options, threads);
  in.skeletons = plan.cyclic_skeletons();
  Weights<T> weights(shape, make);
  const bool moments = keeps_moments(optimizer);
  Array<T> first(plan.moments_shape()), second(first);
  PathOutputs<T> out = weights.outputs();
  if (moments) {
    out.first_moment = first.view();
    out.second_moment = second.view();
  }
  Array<double> squared(leading);
  out.squared_gradient = squared.view();
  std::vector<StepSummary> summaries;
  for (Index n = 1; n <= 3; ++n) {
    plan.set_step(n, options.rate);
    summaries = plan.run(in, out);
    in.wq = out.wq;
    in.wk = out.wk;
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
      const double sum =
          squared_path_gradients<T>(cyclic_skeleton(rows, 0, cols),
                                    {matrices.wq, matrices.wk, matrices.grad_wq, matrices.grad_wk});
      if (n == 3) CHECK(squared.values[static_cast<std::size_t>(problem)] == sum);
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
    PathInputs<double> in = weights.inputs(weights);
    PathPlan<double> plan(shapes_of(in), {}, 2);
    in.skeletons = plan.largest_skeletons(in);
    Array<double> values(plan.values_shape());
    PathOutputs<double> out = weights.outputs();
    out.values = values.view();
    CHECK(plan.run(in, out).size() == in.skeletons.size());
    CHECK(values.values.empty());
  }
}

TEST_CASE("path plans refuse shapes, skeletons, numbers and options") {
  const auto message = [](const auto& body) { return std::string(thrown_error(body).what()); };
  const auto made = [&](const PathShapes& shapes, const StepOptions& options = {}) {
    return message([&] { PathPlan<float>(shapes, options, 1); });
  };
  CHECK(contains(made({Shape{4}, Shape{4}}), "at least 2 axes"));
  CHECK(contains(made({Shape{0, 3}, Shape{0, 3}}), "expected rows"));
  CHECK(contains(made({Shape{-1, 3}, Shape{-1, 3}}), ">= 0"));
  CHECK(contains(made({Shape{2, 3}, std::nullopt}), "expected wq and wk"));
  CHECK(contains(made({Shape{2, 3}, Shape{3, 2}}), "wk has the last axes (3, 2)"));
  CHECK(contains(made({Shape{2, 3}, Shape{2, 3}, Shape{2, 3}}), "grad_wq and grad_wk, or neither"));
  CHECK(contains(made({Shape{2, 2, 3}, Shape{2, 3}, Shape{3, 2, 3}, Shape{2, 3}}), "grad_wq"));
  CHECK(thrown_error([] {
          PathPlan<float>({Shape{2, 3}, Shape{2, 3}}, {}, 0);
        }).failure() == Failure::usage);
  const PathShapes fine{Shape{2, 3}, Shape{2, 3}};
  CHECK(contains(made(fine, {.rate = 0}), "rate"));
  CHECK(contains(made(fine, {.min_ratio = std::nan("")}), "min_ratio"));
  CHECK(contains(made(fine, {.optimizer = Optimizer::si_adam, .number = 0}), "number"));

  Numbers make(934);
  Weights<double> weights({2, 3, 4}, make);
  Weights<double> gradients({2, 3, 4}, make);
  PathInputs<double> in = weights.inputs(gradients);
  PathOutputs<double> out = weights.outputs();
  PathPlan<double> plan(shapes_of(in), {}, 1);
  in.skeletons = plan.cyclic_skeletons();
  const auto run = [&](PathPlan<double>& with) { return message([&] { with.run(in, out); }); };
  CHECK(contains(message([&] { plan.set_step(1, -1); }), "rate"));
  CHECK(contains(message([&] { plan.set_step(1, 1, -1); }), "gradient_factor"));
  Array<double> values({2, 5, 3});
  out.values = values.view();
  CHECK(contains(run(plan), "values is (2, 5, 3), expected (2, 5, 4)"));
  out = {};
  weights.wk.values[13] = std::nan("");
  CHECK(contains(message([&] { plan.largest_skeletons(in); }), "wk has nan at [1, 0, 1]"));
  CHECK(contains(run(plan), "wk has nan at [1, 0, 1]"));
  weights.wk.values[13] = 1;
  out = weights.outputs();
  gradients.wq.values[13] = std::nan("");
  CHECK(contains(run(plan), "grad_wq has nan at [1, 0, 1]"));
  gradients.wq.values[13] = 1;
  in.skeletons[1].k[2] = 3;
  CHECK(contains(run(plan), "the skeleton of problem [1]"));
  in.skeletons[1].k.pop_back();
  CHECK(contains(run(plan), "the skeleton of problem [1]"));
  in.skeletons.pop_back();
  CHECK(contains(run(plan), "1 skeletons, expected 2"));
  in.skeletons = plan.cyclic_skeletons();
  PathPlan<double> adam(shapes_of(in), {.optimizer = Optimizer::si_adam}, 1);
  CHECK(contains(run(adam), "the first moment"));
  Array<double> moments({2, 6, 4});
  out.first_moment = out.second_moment = moments.view();
  CHECK(contains(run(adam), "the first moment is (2, 6, 4), expected (2, 5, 4)"));
  out = weights.outputs();
  in.grad_wq.shape = {3, 3, 4};
  CHECK(contains(run(plan), "grad_wq is (3, 3, 4), the plan was made for (2, 3, 4)"));
  in = weights.inputs();
  in.skeletons = plan.cyclic_skeletons();
  PathPlan<double> alone(shapes_of(in), {}, 1);
  CHECK(contains(run(alone), "without grad_wq and grad_wk"));
  in = weights.inputs(gradients);
  in.skeletons = plan.cyclic_skeletons();
  out.wk = {};
  CHECK(contains(run(plan), "wk is"));
  out = weights.outputs();
  in.wq.data = nullptr;
  CHECK(contains(run(plan), "wq is without data"));
  // In place without all leading axes.
  in = weights.inputs(gradients);
  in.wq.shape = {3, 4};
  PathPlan<double> shared(shapes_of(in), {}, 1);
  in.skeletons = shared.cyclic_skeletons();
  CHECK(contains(run(shared), "wq is (3, 4), expected (2, 3, 4)"));
  in = weights.inputs(gradients);
  in.skeletons = plan.cyclic_skeletons();
  plan.run(in, out);
}

TEST_CASE("inputs of path plans broadcast") {
  Numbers make(937);
  const Array<double> wq = numbers<double>({3, 4}, make);
  const Array<double> wk = numbers<double>({2, 1, 3, 4}, make);
  const Weights<double> gradients({5, 3, 4}, make);
  PathInputs<double> in{wq.view(), wk.view(), gradients.wq.view(), gradients.wk.view()};
  const StepOptions options{.rate = 0.01};
  PathPlan<double> plan(shapes_of(in), options, 2);
  REQUIRE(plan.leading() == Shape{2, 5});
  in.skeletons = plan.cyclic_skeletons();
  Weights<double> found({2, 5, 3, 4}, make);
  plan.run(in, found.outputs());
  for (Index problem = 0; problem < 10; ++problem) {
    Array<double> own_q({3, 4}), own_k({3, 4});
    const auto copy = [](MatrixView<const double> from, Array<double>& to) {
      std::copy_n(from.data, 12, to.values.begin());
    };
    copy(wq.matrix(problem, plan.leading()), own_q);
    copy(wk.matrix(problem, plan.leading()), own_k);
    StepMatrices<double> matrices{matrix(own_q, 0, 3, 4), matrix(own_k, 0, 3, 4),
                                  gradients.wq.matrix(problem, plan.leading()),
                                  gradients.wk.matrix(problem, plan.leading())};
    step<double>(options, cyclic_skeleton(3, 0, 4), matrices, 1);
    CHECK(same_bits(found.wq.values.data() + problem * 12, own_q.values.data(), 12));
    CHECK(same_bits(found.wk.values.data() + problem * 12, own_k.values.data(), 12));
  }
}

TEST_CASE("two path plans run at the same time, each many times") {
  const auto train = [](const Shape& shape, unsigned seed) {
    Numbers make(seed);
    Weights<double> weights(shape, make);
    Weights<double> gradients(shape, make);
    PathInputs<double> in = weights.inputs(gradients);
    PathPlan<double> plan(shapes_of(in), {.rate = 1e-4}, 2);
    in.skeletons = plan.cyclic_skeletons();
    for (int n = 0; n < 20; ++n) plan.run(in, weights.outputs());
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
