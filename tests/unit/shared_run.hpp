#pragma once

// Computations whose loops are divided among ranks, or recorded, and whether two have the same
// bits.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "dual_problem.hpp"
#include "fenchel/closed_forms.hpp"
#include "fenchel/radius.hpp"
#include "gradient_check.hpp"
#include "same_bits.hpp"

namespace attn::testing {

/// All results that are divided: weights are not among them.
template <class T>
Run<T> run_divided(const Problem<T>& problem, const SchemeOptions& options, int threads) {
  Run<T> run;
  const auto v = problem.v();
  const Index queries = problem.scores().rows();
  run.out.assign(static_cast<std::size_t>(queries * v.cols), T{-1});
  Output<T> output(v, MatrixView<T>(run.out.data(), queries, v.cols));
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  run.attention = attend<T>(problem.scores(), options, {&output, &sums, &entropy}, threads);
  run.column_sums = sums.values();
  run.entropies = entropy.values();
  return run;
}

template <class T>
bool same_run(const Run<T>& a, const Run<T>& b) {
  const Potentials& x = a.attention.potentials;
  const Potentials& y = b.attention.potentials;
  return same_bits(a.out, b.out) && same_bits(a.column_sums, b.column_sums) &&
         same_bits(a.entropies, b.entropies) && same_bits(x.row, y.row) &&
         same_bits(x.col, y.col) && same_bits(x.unas_row, y.unas_row) &&
         a.attention.summary.iterations == b.attention.summary.iterations;
}

template <class T>
bool same_gradients(const Gradients<T>& a, const Gradients<T>& b) {
  return same_bits(a.q, b.q) && same_bits(a.k, b.k) && same_bits(a.v, b.v) && same_bits(a.w, b.w) &&
         same_bits(a.w2, b.w2) && same_bits(a.b1, b.b1) && same_bits(a.by_query, b.by_query) &&
         same_bits(a.by_key, b.by_key) && same_bits(a.table, b.table) &&
         same_bits(&a.hybrid, &b.hybrid, 1);
}

/// All that is found for the queries of a dual.
inline std::vector<double> dual_numbers(const DualProblem& problem, int threads) {
  const SolvedDual found(problem, {}, threads);
  std::vector<double> all = found.lambdas;
  all.insert(all.end(), found.hs.begin(), found.hs.end());
  all.insert(all.end(), found.ps.begin(), found.ps.end());
  for (const DualSummary& one : found.summaries) {
    all.insert(all.end(), {one.gap, one.primal, static_cast<double>(one.iterations)});
  }
  const auto add = [&](const std::vector<double>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const Index queries = problem.evidence.rows;
  const auto size = [&](Index width) { return static_cast<std::size_t>(queries * width); };
  std::vector<double> first(size(problem.evidence.cols), -1), second(first);
  std::vector<double> p(size(problem.templates.rows), -1);
  const auto view = [&](std::vector<double>& numbers) {
    return MatrixView<double>(numbers.data(), queries, std::ssize(numbers) / queries);
  };
  const std::vector<double> alphas(size(1), problem.alpha);
  closed_forms(problem, alphas, threads, {view(first), view(p), view(second)});
  for (const auto* numbers : {&first, &p, &second}) add(*numbers);
  if (problem.transport) return all;
  double largest = 0;  // ‖z‖², at which λ becomes 0
  for (Index q = 0; q < queries; ++q) {
    const double* z = problem.evidence.row(q);
    largest = std::max(largest, std::inner_product(z, z + problem.evidence.cols, z, 0.0));
  }
  for (const DualSummary& one :
       solve_radius(problem, 0.95 * largest, {}, threads, {view(first), view(second), view(p)})) {
    all.insert(all.end(), {one.alpha, one.gap, static_cast<double>(one.iterations)});
  }
  for (const auto* numbers : {&first, &p, &second}) add(*numbers);
  return all;
}

/// Calls check(run, same) with attention of queries to `keys` keys under every scheme: its output
/// alone, and all its results.
template <class T, class Check>
void for_schemes(Random& random, Index keys, const Check& check) {
  for (const Scheme scheme : schemes_with_fenchel) {
    for (const double spread : {0.5, 6.0}) {
      ProblemOptions options;
      options.queries = 391;
      options.keys = keys;
      options.depth = 4;
      options.v_head_dim = 3;
      options.spread = spread;
      const Problem<T> problem(options, random);
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(spread);
      check([&](int threads) { return run_output(problem, fixed(scheme), threads); }, same_run<T>);
      check([&](int threads) { return run_divided(problem, fixed(scheme), threads); }, same_run<T>);
    }
  }
}

/// The same with the gradients of every scheme and mechanism, of problems with at
/// least `least_queries` queries and with `keys` keys.
template <class T, class Check>
void for_gradients(Random& random, Index least_queries, Index keys, const Check& check) {
  for (const Scheme scheme : all_schemes) {
    for (const Mechanism mechanism : all_mechanisms) {
      ProblemOptions options = random_options(random, 150);
      options.queries = std::max(options.queries, least_queries);
      options.keys = keys;
      options.mechanism = mechanism;
      options.key_depth = mechanism == Mechanism::product ? options.depth : 3;
      const Problem<T> problem(options, random);
      const auto grad_out = random_matrix(problem.scores().rows(), problem.v().cols, random);
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(static_cast<int>(mechanism));
      check(
          [&](int threads) {
            return gradients_of(problem, fixed(scheme), grad_out, threads, false);
          },
          same_gradients<T>);
    }
  }
}

/// The same with duals, of both divergences and in both forms of Newton's steps.
template <class Check>
void for_duals(Random& random, const Check& check) {
  for (const double gamma : {0.0, 0.5}) {
    for (const Index depth : {4, 40}) {
      DualShape shape;
      shape.queries = 101;
      shape.count = 20;
      shape.depth = depth;
      shape.gamma = gamma;
      const OwnedDual owned(shape, random);
      CAPTURE(gamma);
      CAPTURE(depth);
      check([&](int threads) { return dual_numbers(owned.problem(), threads); },
            [](const auto& a, const auto& b) { return same_nonempty_bits(a, b); });
    }
  }
}

}  // namespace attn::testing
