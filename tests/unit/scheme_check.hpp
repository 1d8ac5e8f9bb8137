#pragma once

// Attention on a random problem, and its comparison with the reference.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "pass/output.hpp"
#include "random_problem.hpp"
#include "repeats.hpp"
#include "scheme/scheme.hpp"
#include "stats/observers.hpp"
#include "weights_observer.hpp"

namespace attn::testing {

inline SchemeOptions fixed(Scheme scheme, double hybrid = 0.3, Index iterations = 3) {
  SchemeOptions options;
  options.scheme = scheme;
  options.hybrid = hybrid;
  options.stopping.iterations = iterations;
  return options;
}

template <class T>
struct Run {
  std::vector<T> out;
  std::vector<T> weights;
  std::vector<double> column_sums;
  std::vector<double> entropies;
  Attention attention;
};

template <class T>
Run<T> run_all(const Problem<T>& problem, const SchemeOptions& options, int threads = 2) {
  Run<T> run;
  const auto v = problem.v();
  const Index queries = problem.scores().rows();
  run.out.resize(static_cast<std::size_t>(queries * v.cols));
  Output<T> output(v, MatrixView<T>(run.out.data(), queries, v.cols));
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  KeepWeights<T> weights;
  run.attention =
      attend<T>(problem.scores(), options, {&output, &sums, &entropy, &weights}, threads);
  run.weights = weights.values;
  run.column_sums = sums.values();
  run.entropies = entropy.values();
  return run;
}

// The output only, which may be computed by another method than all results together.
template <class T>
Run<T> run_output(const Problem<T>& problem, const SchemeOptions& options, int threads = 2) {
  Run<T> run;
  const auto v = problem.v();
  const Index queries = problem.scores().rows();
  run.out.assign(static_cast<std::size_t>(queries * v.cols), T{-1});
  Output<T> output(v, MatrixView<T>(run.out.data(), queries, v.cols));
  run.attention = attend<T>(problem.scores(), options, {&output}, threads);
  return run;
}

// Potentials carry the error of the scores, absolutely, and are −inf for masked rows or columns.
inline void check_potentials(const std::vector<double>& got, const std::vector<long double>& want,
                             double bound) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CHECK((got[i] == static_cast<double>(want[i]) ||
           std::abs(got[i] - static_cast<double>(want[i])) <= bound));
  }
}

template <class T>
void check_against_reference(const Problem<T>& problem, const SchemeOptions& options) {
  const auto s = problem.reference_scores();
  const auto want =
      reference::attend(s, options.scheme, options.hybrid, options.stopping.iterations.value_or(1));
  const auto got = run_all(problem, options);
  const double bound = tolerance<T>(largest_score(s));
  CHECK(relative_error(got.weights, want.weights.values) <= bound);
  CHECK(relative_error(got.out, reference::output(want.weights, problem.reference_v()).values) <=
        bound);
  CHECK(relative_error(got.column_sums, reference::column_sums(want.weights)) <= bound);
  // x log x magnifies an error of x by up to |log x|, about 90 at the edge of float32.
  const auto entropies = reference::row_entropies(want.weights);
  for (std::size_t i = 0; i < entropies.size(); ++i) {
    CHECK(std::abs(got.entropies[i] - static_cast<double>(entropies[i])) <=
          bound * 90 * (1 + std::log(static_cast<double>(s.cols))));
  }
  check_potentials(got.attention.potentials.row, want.row, 4 * bound);

  const auto out = reference::output(want.weights, problem.reference_v()).values;
  const auto alone = run_output(problem, options);
  CHECK(relative_error(alone.out, out) <= bound);
  check_potentials(alone.attention.potentials.row, want.row, 4 * bound);
  CHECK(alone.attention.potentials.col == got.attention.potentials.col);
  // Softmax uses the same method whatever else is observed.
  if (is_softmax(options.scheme)) CHECK(alone.out == got.out);
  const auto again = run_output(problem, options, 3);
  CHECK(again.out == alone.out);
  CHECK(again.attention.potentials.row == alone.attention.potentials.row);
}

/// `count` random problems, each with some scheme; `change` may modify their options.
template <class T, class Change>
void check_random_problems(int count, unsigned seed, Index largest, const Change& change) {
  Random random(seed);
  for (int n = 0; n < repeats(count); ++n) {
    ProblemOptions options = random_options(random, largest);
    change(options, random);
    const Scheme scheme = all_schemes[random_index(random, 0, 3)];
    CAPTURE(n);
    CAPTURE(options.queries);
    CAPTURE(options.keys);
    CAPTURE(options.depth);
    CAPTURE(options.hidden);
    CAPTURE(static_cast<int>(scheme));
    CAPTURE(static_cast<int>(options.mechanism));
    CAPTURE(static_cast<int>(options.relative));
    CAPTURE(options.softcap.has_value());
    CAPTURE(options.preference);
    const Problem<T> problem(options, random);
    check_against_reference(problem, fixed(scheme));
  }
}

// Compiled once, in shared/scheme_check.cpp.
extern template Run<float> run_all(const Problem<float>&, const SchemeOptions&, int);
extern template Run<double> run_all(const Problem<double>&, const SchemeOptions&, int);
extern template Run<float> run_output(const Problem<float>&, const SchemeOptions&, int);
extern template Run<double> run_output(const Problem<double>&, const SchemeOptions&, int);
extern template void check_against_reference(const Problem<float>&, const SchemeOptions&);
extern template void check_against_reference(const Problem<double>&, const SchemeOptions&);

}  // namespace attn::testing
