#pragma once

// Random histograms, whose barycentre tests find.

#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "random_problem.hpp"
#include "sinkhorn/barycentre.hpp"

namespace attn::testing {

using Matrix = std::vector<std::vector<double>>;

template <class T>
struct BarycentreProblem {
  Problem<T> problem;
  std::vector<double> masses;   // (K, Lk)
  std::vector<double> weights;  // (K)

  static ProblemOptions sizes(Index rows, Index cols, double spread) {
    ProblemOptions options;
    options.queries = rows;
    options.keys = cols;
    options.depth = 3;
    options.spread = spread;
    return options;
  }

  /// Histograms of that total, with zeros; of three or more, the second has the weight 0.
  BarycentreProblem(Index rows, Index cols, Index count, double total, double spread,
                    Random& random)
      : problem(sizes(rows, cols, spread), random) {
    std::uniform_real_distribution<double> uniform(0.2, 2);
    for (Index k = 0; k < count; ++k) {
      double sum = 0;
      for (Index j = 0; j < cols; ++j) {
        masses.push_back(cols > 2 && (j + k) % 4 == 1 ? 0 : uniform(random));
        sum += masses.back();
      }
      for (Index j = 0; j < cols; ++j)
        masses[static_cast<std::size_t>(k * cols + j)] *= total / sum;
      weights.push_back(count > 2 && k == 1 ? 0 : uniform(random));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
  }

  const Scores<T>& scores() const { return problem.scores(); }
  Histograms histograms() const { return {static_cast<Index>(weights.size()), masses, weights}; }

  Matrix all_scores() const {
    Matrix values;
    typename Scores<T>::Scratch scratch;
    for (Index i = 0; i < scores().rows(); ++i) {
      std::vector<T> row(static_cast<std::size_t>(scores().cols()));
      scores().fill({i, 1, 0, scores().cols()}, {row.data(), 1, scores().cols()}, scratch);
      values.emplace_back(row.begin(), row.end());
    }
    return values;
  }
};

}  // namespace attn::testing
