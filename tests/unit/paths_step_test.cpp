#include "paths/step.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "path_problem.hpp"
#include "paths/rescale.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

StepOptions options_of(Optimizer optimizer, double rate = 1e-3) {
  StepOptions options;
  options.optimizer = optimizer;
  options.rate = rate;
  return options;
}

// The same by the formulas, in long double and without blocks. Moments are indexed like their
// weights or basis paths.
struct Reference {
  using Real = long double;
  Matrix<Real> wq, wk, grad_wq, grad_wk, first, second;

  template <class T>
  explicit Reference(const PathProblem<T>& problem)
      : wq(problem.wq),
        wk(problem.wk),
        grad_wq(problem.grad_wq),
        grad_wk(problem.grad_wk),
        first(problem.first),
        second(problem.second) {}

  Real update(const StepOptions& options, Index row, Index c, Real upstream, Real value) {
    const Real gradient = options.gradient_factor * upstream;
    if (!keeps_moments(options.optimizer)) {
      first(row, c) = options.momentum * first(row, c) + gradient + options.decay * value;
      return options.rate * first(row, c);
    }
    const Real b1 = options.beta1;
    const Real b2 = options.beta2;
    first(row, c) = b1 * first(row, c) + (1 - b1) * gradient;
    second(row, c) = b2 * second(row, c) + (1 - b2) * gradient * gradient;
    const Real m = first(row, c) / (1 - std::pow(b1, static_cast<Real>(options.number)));
    const Real v = second(row, c) / (1 - std::pow(b2, static_cast<Real>(options.number)));
    return options.rate * (m / (std::sqrt(v) + options.epsilon) + options.decay * value);
  }

  void step(const StepOptions& options, const Skeleton& skeleton) {
    const Index rows = wq.rows;
    for (Index c = 0; c < wq.cols; ++c) {
      if (!steps_in_paths(options.optimizer)) {
        for (Index i = 0; i < rows; ++i) {
          wq(i, c) -= update(options, i, c, grad_wq(i, c), wq(i, c));
        }
        for (Index j = 0; j < rows; ++j) {
          wk(j, c) -= update(options, rows + j, c, grad_wk(j, c), wk(j, c));
        }
        continue;
      }
      const bool printed = options.optimizer == Optimizer::si_sgd_printed;
      const Index s = skeleton.q_of(c);
      const Index s_k = skeleton.k_of(c);
      const Real q = wq(s, c);
      const Real k = printed ? 1 : wk(s_k, c);
      Real sum = 0;
      for (Index j = 0; j < rows; ++j) {
        if (j != s_k) sum += grad_wk(j, c) * wk(j, c) / q;
      }
      const Real path = q * wk(s_k, c);
      const Real ratio = 1 - update(options, s, c, (grad_wq(s, c) - sum) / k, path) / (q * k);
      Index place = rows;
      for (Index j = 0; j < rows; ++j) {
        if (j == s_k) continue;
        const Real by = update(options, place++, c, grad_wk(j, c) / q, wk(j, c) * q);
        wk(j, c) = (wk(j, c) - (printed ? by : by / q)) / ratio;
      }
      for (Index i = 0; i < rows; ++i) {
        if (i != s) wq(i, c) -= update(options, i, c, grad_wq(i, c) / k, wq(i, c) * k) / k;
      }
      wq(s, c) = q * ratio;
    }
  }
};

template <class T>
void check_near(const Matrix<T>& found, const Matrix<long double>& expected, double limit) {
  for (std::size_t n = 0; n < found.values.size(); ++n) {
    const long double size = std::max(1.0L, std::abs(expected.values[n]));
    CHECK(std::abs(found.values[n] - expected.values[n]) <= limit * size);
  }
}

template <class T>
void check_against_reference(Optimizer optimizer, bool with_more, Index rows, Index columns,
                             double limit) {
  PathProblem<T> problem(rows, columns, 31);
  for (Index n = 1; n <= 3; ++n) {
    problem.find_gradients();
    Reference reference(problem);
    StepOptions options = options_of(optimizer, 1e-2 / static_cast<double>(rows));
    options.number = n;
    options.min_ratio = 1e-6;
    if (with_more) {
      options.gradient_factor = 0.7;
      options.decay = 0.1;
      if (!keeps_moments(optimizer)) options.momentum = 0.8;
    }
    REQUIRE(problem.step(options).singular.empty());
    reference.step(options, problem.skeleton);
    check_near(problem.wq, reference.wq, limit);
    check_near(problem.wk, reference.wk, limit);
    if (!keeps_first_moment(options)) continue;
    check_near(problem.first, reference.first, limit);
    if (keeps_moments(optimizer)) check_near(problem.second, reference.second, limit);
  }
}

template <class T>
Matrix<T> values_of(const PathProblem<T>& problem) {
  Matrix<T> values(basis_rows(problem.wq.rows), problem.wq.cols);
  basis_values<T>(problem.wq.view(), problem.wk.view(), problem.skeleton, values.view(), 1);
  return values;
}

void rescale(PathProblem<double>& problem, const std::vector<double>& factors) {
  rescale_columns<double>(problem.wq.view(), factors, Rescaled::times);
  rescale_columns<double>(problem.wk.view(), factors, Rescaled::over);
}

}  // namespace

TEST_CASE("every optimiser against its formulas in long double") {
  for (const Optimizer optimizer : all_optimizers) {
    for (const auto& [rows, columns] : path_sizes()) {
      INFO("optimiser " << static_cast<int>(optimizer));
      // One rounding of stored values; computed values carry some roundings of float64, its sums
      // and a division by a ratio near 1, amplified by weights of at least a quarter.
      for (const bool with_more : {false, true}) {
        check_against_reference<double>(optimizer, with_more, rows, columns, 1e-13);
        check_against_reference<float>(optimizer, with_more, rows, columns, 1.2e-7);
      }
    }
  }
}

TEST_CASE("squared gradients of basis paths are those that a step takes") {
  // With a rate so small that no ratio differs from 1, the first moment after a step with momentum
  // is the gradient of each basis path.
  for (const auto& [rows, columns] : path_sizes()) {
    PathProblem<double> problem(rows, columns, 35);
    const double found = problem.squared_gradients();
    StepOptions options = options_of(Optimizer::si_sgd, 1e-30);
    options.momentum = 0.5;
    problem.step(options);
    double want = 0;
    for (Index r = 0; r < basis_rows(rows); ++r) {
      for (Index c = 0; c < columns; ++c) want += problem.first(r, c) * problem.first(r, c);
    }
    CHECK(found == doctest::Approx(want).epsilon(1e-13));
  }
}

TEST_CASE("a column with an infinite ratio or a skeleton of 0 stays, and is in no norm") {
  PathProblem<double> problem(2, 2, 37);
  problem.skeleton = {{0, 0}, {0, 0}};
  const Matrix<double> before = problem.wq;
  problem.wq(0, 0) = problem.wk(0, 0) = 1e-160;
  problem.wk(1, 0) = 0;
  problem.grad_wq(0, 0) = 1e20;
  StepOptions options = options_of(Optimizer::si_sgd, 1);
  options.clips = true;
  const StepSummary summary = problem.step(options);
  CHECK(problem.wq(0, 0) == 1e-160);
  CHECK(problem.wq(1, 0) == before(1, 0));
  REQUIRE(!summary.singular.empty());
  CHECK(std::isinf(summary.singular.front().ratio));

  PathProblem<double> zero(2, 2, 38);
  zero.skeleton = {{0, 0}, {0, 0}};
  zero.wq(0, 1) = 0;
  CHECK(std::isfinite(zero.squared_gradients()));
}

TEST_CASE("momentum, decay and clipping in paths do not depend on rescalings") {
  const std::vector<double> factors = {2, -0.25, 8};
  for (const Optimizer optimizer : {Optimizer::si_sgd, Optimizer::si_adam}) {
    PathProblem<double> problem(4, 3, 36);
    PathProblem<double> other(4, 3, 36);
    rescale(other, factors);
    for (Index n = 1; n <= 5; ++n) {
      StepOptions options = options_of(optimizer, 1e-2);
      options.number = n;
      options.gradient_factor = 0.6;
      options.decay = 0.2;
      if (optimizer == Optimizer::si_sgd) options.momentum = 0.9;
      for (PathProblem<double>* const each : {&problem, &other}) {
        each->find_gradients();
        each->step(options);
      }
      // The factors are signed powers of two.
      CHECK(values_of(other) == values_of(problem));
    }
  }
}

TEST_CASE("a step of si-sgd is a gradient step on the values of basis paths") {
  const Index rows = 4;
  const Index columns = 3;
  PathProblem<double> problem(rows, columns, 32);
  const Matrix<double> before = values_of(problem);
  const double rate = 1e-3;
  REQUIRE(problem.step(options_of(Optimizer::si_sgd, rate)).singular.empty());
  const Matrix<double> after = values_of(problem);
  for (Index c = 0; c < columns; ++c) {
    const Index q = problem.skeleton.q_of(c);
    const Index k = problem.skeleton.k_of(c);
    std::vector<long double> basis;
    for (Index r = 0; r < before.rows; ++r) basis.push_back(before(r, c));
    for (Index r = 0; r < before.rows; ++r) {
      // Central differences of the loss through the paths: errors of h² and of rounding over h.
      const long double h = 1e-5L;
      std::vector<long double> moved = basis;
      moved[static_cast<std::size_t>(r)] += h;
      const long double above = problem.loss.of_basis(moved, q, k, c);
      moved[static_cast<std::size_t>(r)] -= 2 * h;
      const long double gradient = (above - problem.loss.of_basis(moved, q, k, c)) / (2 * h);
      CHECK(std::abs((before(r, c) - after(r, c)) / rate - static_cast<double>(gradient)) <=
            1e-7 * (1 + std::abs(static_cast<double>(gradient))));
    }
  }
}

TEST_CASE("rescaled weights have the same path values after a step") {
  for (const Optimizer optimizer : {Optimizer::si_sgd, Optimizer::si_adam}) {
    PathProblem<double> plain(6, 4, 33);
    PathProblem<double> powers = plain;
    PathProblem<double> others = plain;
    rescale(powers, {-2, 0.125, 64, -1});
    rescale(others, {0.5, -3, 1.7, -0.6});
    for (Index n = 1; n <= 20; ++n) {
      StepOptions options = options_of(optimizer);
      options.number = n;
      for (PathProblem<double>* problem : {&plain, &powers, &others}) {
        problem->find_gradients();
        problem->step(options);
      }
      CHECK(values_of(plain) == values_of(powers));
      const Matrix<double> expected = values_of(plain);
      const Matrix<double> found = values_of(others);
      for (std::size_t at = 0; at < expected.values.size(); ++at) {
        CHECK(std::abs(found.values[at] - expected.values[at]) <=
              1e-10 * std::abs(expected.values[at]));
      }
    }
    // Steps by paths do not change the skeleton of W_K.
    const PathProblem<double> start(6, 4, 33);
    for (Index c = 0; c < 4; ++c) {
      CHECK(plain.wk(plain.skeleton.k_of(c), c) == start.wk(plain.skeleton.k_of(c), c));
    }
  }
}

TEST_CASE("the printed update is correct only for a skeleton of ones, for one step") {
  PathProblem<double> exact(5, 3, 34);
  for (Index c = 0; c < 3; ++c) {
    exact.wq(exact.skeleton.q_of(c), c) = 1;
    exact.wk(exact.skeleton.k_of(c), c) = 1;
  }
  exact.find_gradients();
  PathProblem<double> printed = exact;
  exact.step(options_of(Optimizer::si_sgd));
  printed.step(options_of(Optimizer::si_sgd_printed));
  CHECK(exact.wq == printed.wq);
  CHECK(exact.wk == printed.wk);
  exact.find_gradients();
  printed.find_gradients();
  exact.step(options_of(Optimizer::si_sgd));
  printed.step(options_of(Optimizer::si_sgd_printed));
  CHECK(exact.wk != printed.wk);
}

TEST_CASE("neither threads nor the range of columns changes a bit") {
  for (const Optimizer optimizer : all_optimizers) {
    PathProblem<float> whole(9, 300, 35);
    PathProblem<float> threaded = whole;
    PathProblem<float> parts = whole;
    StepOptions options = options_of(optimizer);
    if (steps_in_paths(optimizer)) {
      // Some columns are singular then.
      const StepSummary ratios = PathProblem<float>(whole).step(options, 1);
      options.min_ratio = (ratios.least_ratio + ratios.largest_ratio) / 2;
    }
    const StepSummary found = whole.step(options, 1);
    CHECK(found.singular.empty() == !steps_in_paths(optimizer));
    const StepSummary same = threaded.step(options, 3);
    CHECK(whole.wq == threaded.wq);
    CHECK(whole.wk == threaded.wk);
    CHECK(whole.first == threaded.first);
    CHECK(found.singular.size() == same.singular.size());
    StepSummary sum;
    for (Index first = 0; first < 300; first += 77) {
      const Index count = std::min<Index>(77, 300 - first);
      const auto range = [&](Matrix<float>& m) {
        return MatrixView<float>(m.values.data() + first, m.rows, count, m.cols);
      };
      Skeleton skeleton;
      for (Index c = first; c < first + count; ++c) {
        skeleton.q.push_back(parts.skeleton.q_of(c));
        skeleton.k.push_back(parts.skeleton.k_of(c));
      }
      sum.add(step<float>(options, skeleton,
                          {range(parts.wq), range(parts.wk), range(parts.grad_wq),
                           range(parts.grad_wk), range(parts.first), range(parts.second)},
                          1),
              first);
    }
    CHECK(whole.wq == parts.wq);
    CHECK(whole.wk == parts.wk);
    CHECK(whole.second == parts.second);
    REQUIRE(sum.singular.size() == found.singular.size());
    for (std::size_t n = 0; n < sum.singular.size(); ++n) {
      CHECK(sum.singular[n].col == found.singular[n].col);
    }
    CHECK(sum.least_ratio == found.least_ratio);
    CHECK(sum.inconsistency == found.inconsistency);
  }
}

TEST_CASE("singular columns are kept or clipped") {
  PathProblem<double> start(4, 3, 36);
  start.skeleton = {{1, 2, 3}, {0, 1, 2}};
  // Only in column 1, the skeleton's path is so close to 0 that the step would change its sign.
  const double sign = start.grad_wq(2, 1) > 0 ? 1 : -1;
  start.wq(2, 1) = 1e-6 * sign;
  for (Index j = 0; j < 4; ++j) start.wk(j, 1) = j == 1 ? 1 : 0;
  start.find_gradients();
  if (start.grad_wq(2, 1) * sign < 0) {
    start.wq(2, 1) *= -1;
    start.find_gradients();
  }
  for (const Optimizer optimizer : {Optimizer::si_sgd, Optimizer::si_adam}) {
    PathProblem<double> skipped = start;
    StepOptions options = options_of(optimizer);
    const StepSummary found = skipped.step(options);
    REQUIRE(found.singular.size() == 1);
    CHECK(found.singular[0].col == 1);
    CHECK(found.singular[0].ratio < 0);
    CHECK(found.least_ratio == found.singular[0].ratio);
    for (Index i = 0; i < 4; ++i) {
      CHECK(skipped.wq(i, 1) == start.wq(i, 1));
      CHECK(skipped.wk(i, 1) == start.wk(i, 1));
      CHECK(skipped.wq(i, 0) != start.wq(i, 0));
    }
    for (Index r = 0; r < 7; ++r) CHECK(skipped.first(r, 1) == 0);
    PathProblem<double> clipped = start;
    options.clips = true;
    options.min_ratio = 0.25;
    CHECK(clipped.step(options).singular.size() == 1);
    CHECK(clipped.wq(2, 1) == start.wq(2, 1) * 0.25);
    CHECK(clipped.wq(0, 1) != start.wq(0, 1));
    CHECK(clipped.wq(0, 0) == skipped.wq(0, 0));
  }
}

TEST_CASE("a column whose skeleton weight is 0 does not move") {
  for (const bool of_q : {true, false}) {
    for (const Optimizer optimizer : {Optimizer::si_sgd, Optimizer::si_adam}) {
      PathProblem<double> problem(3, 2, 37);
      problem.skeleton = {{0, 1}, {1, 2}};
      (of_q ? problem.wq(0, 0) : problem.wk(1, 0)) = 0;
      problem.find_gradients();
      const PathProblem<double> start = problem;
      StepOptions options = options_of(optimizer);
      options.clips = true;
      const StepSummary found = problem.step(options);
      REQUIRE(found.singular.size() == 1);
      CHECK(std::isnan(found.singular[0].ratio));
      for (Index i = 0; i < 3; ++i) {
        CHECK(problem.wq(i, 0) == start.wq(i, 0));
        CHECK(problem.wk(i, 0) == start.wk(i, 0));
        CHECK(problem.wq(i, 1) != start.wq(i, 1));
      }
      for (const double moment : {problem.first(0, 0), problem.second(0, 0)}) CHECK(moment == 0);
    }
  }
}

TEST_CASE("gradients of a loss that does not depend only on the scores are detected") {
  PathProblem<double> problem(8, 5, 38);
  CHECK(PathProblem<double>(problem).step(options_of(Optimizer::si_sgd)).inconsistency <= 1e-14);
  // The decay of one column's weights: its gradient changes under a rescaling.
  for (Index i = 0; i < 8; ++i) problem.grad_wq(i, 2) += problem.wq(i, 2);
  CHECK(problem.step(options_of(Optimizer::si_sgd)).inconsistency > 1e-2);
}
