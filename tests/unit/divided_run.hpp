#pragma once

// Computations whose loops are divided among ranks, or recorded, and whether two have the same
// bits.

#include <vector>

#include "dual_problem.hpp"
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
  return all;
}

}  // namespace attn::testing
