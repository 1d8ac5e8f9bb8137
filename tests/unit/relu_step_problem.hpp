#pragma once

// Steps on ReLU networks, and plain evaluations of the gradients of their basis paths.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "paths/relu_step.hpp"
#include "relu_problem.hpp"

namespace attn::testing {

inline bool all_zero(const std::vector<Matrix<double>>& matrices) {
  for (const Matrix<double>& matrix : matrices) {
    for (const double number : matrix.values) {
      if (number != 0) return false;
    }
  }
  return true;
}

/// Not one whose outputs are 0 whatever the input.
inline std::vector<Matrix<double>> live_network(const ReluLayers& layers, const ReluLoss& loss,
                                                Numbers& numbers) {
  std::vector<Matrix<double>> weights;
  do weights = random_network<double>(layers, numbers);
  while (all_zero(loss.gradients(weights)));
  return weights;
}

inline StepOptions with_rate(double rate) {
  StepOptions options;
  options.rate = rate;
  return options;
}

/// Both moments, by basis path.
struct PathNumbers {
  Matrix<double> first;
  Matrix<double> second;
  explicit PathNumbers(Index rank) : first(1, rank), second(1, rank) {}
  bool operator==(const PathNumbers&) const = default;
};

/// A network whose skeleton, by the largest paths, is not near 0.
struct ReluProblem {
  ReluLayers layers;
  Numbers numbers;
  ReluLoss loss;
  std::vector<Matrix<double>> weights;
  ReluSkeleton skeleton;
  ReluBasis basis;

  ReluProblem(const Sizes& sizes, unsigned seed)
      : layers(sizes),
        numbers(seed),
        loss(layers, numbers),
        weights(live_network(layers, loss, numbers)),
        skeleton(largest_skeleton(layers, const_views(weights))),
        basis(layers, skeleton) {}
  ReluProblem(const ReluProblem&) = delete;
  ReluProblem& operator=(const ReluProblem&) = delete;

  std::vector<double> values(const std::vector<Matrix<double>>& of) const {
    std::vector<double> found(static_cast<std::size_t>(layers.rank()));
    basis_values(basis, const_views(of), found.data(), 1);
    return found;
  }

  ReluStepSummary move(std::vector<Matrix<double>>& start, const StepOptions& options,
                       PathNumbers* moments = nullptr) const {
    const std::vector<Matrix<double>> gradients = loss.gradients(start);
    ReluStepMatrices<double> matrices = {views(start), const_views(gradients)};
    if (moments != nullptr) {
      matrices.first_moment = moments->first.view();
      matrices.second_moment = moments->second.view();
    }
    return step(options, layers, skeleton, matrices, 1);
  }
  ReluStepSummary move(std::vector<Matrix<double>>& start, double rate) const {
    return move(start, with_rate(rate));
  }
};

/// Gaussian elimination with pivots.
inline std::vector<long double> solved(std::vector<std::vector<long double>> m) {
  const std::size_t n = m.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r) {
      if (std::abs(m[r][c]) > std::abs(m[pivot][c])) pivot = r;
    }
    std::swap(m[c], m[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const long double factor = m[r][c] / m[c][c];
      for (std::size_t k = c; k <= n; ++k) m[r][k] -= factor * m[c][k];
    }
  }
  std::vector<long double> x;
  for (std::size_t r = 0; r < n; ++r) x.push_back(m[r][n] / m[r][r]);
  return x;
}

/// ∂L/∂v by the normal equations of W ∂L/∂W = Σ v ∂L/∂v, in the structure vectors of the basis.
inline std::vector<long double> plain_gradients(const ReluProblem& problem,
                                                const std::vector<Matrix<double>>& weights) {
  const std::vector<Sizes> paths = basis_of(problem.basis);
  const std::vector<Matrix<double>> gradients = problem.loss.gradients(weights);
  std::vector<std::vector<long double>> system;
  for (const Sizes& path : paths) {
    std::vector<long double> row;
    for (const Sizes& other : paths) {
      long double shared = 0;
      for (std::size_t l = 1; l < path.size(); ++l) {
        shared += path[l - 1] == other[l - 1] && path[l] == other[l] ? 1 : 0;
      }
      row.push_back(shared);
    }
    long double right = 0;
    for (std::size_t l = 1; l < path.size(); ++l) {
      right += static_cast<long double>(gradients[l - 1](path[l - 1], path[l])) *
               weights[l - 1](path[l - 1], path[l]);
    }
    row.push_back(right);
    system.push_back(std::move(row));
  }
  std::vector<long double> found = solved(std::move(system));
  for (std::size_t n = 0; n < paths.size(); ++n) {
    found[n] /= relu_path_value(weights, paths[n]);
  }
  return found;
}

inline std::vector<long double> plain_gradients(const ReluProblem& problem) {
  return plain_gradients(problem, problem.weights);
}

/// The number of the skeleton's path through a node.
inline std::size_t path_through(const ReluBasis& basis, const SingularNode& node) {
  Index layer = node.layer;
  Index at = node.node;
  // The weight into a node that is also out of one has that one's path.
  while (basis.is_out(layer, basis.in_of(layer, at), at)) at = basis.in_of(layer--, at);
  return static_cast<std::size_t>(basis.number(layer, basis.in_of(layer, at), at));
}

inline double largest_size(const std::vector<long double>& numbers) {
  long double largest = 0;
  for (const long double number : numbers) largest = std::max(largest, std::abs(number));
  return static_cast<double>(largest);
}

inline std::vector<double> random_factors(ReluProblem& problem, bool powers) {
  std::vector<double> factors;
  for (Index n = 0; n < problem.layers.hidden(); ++n) {
    const double factor = std::abs(problem.numbers());
    factors.push_back(powers ? std::ldexp(1.0, static_cast<int>(8 * factor) - 8) : factor);
  }
  return factors;
}

}  // namespace attn::testing
