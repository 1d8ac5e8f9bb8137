#pragma once

// ReLU networks with random weights and the gradients of a loss of their output, for the tests of
// lib/paths; plain loops over all weights and paths.

#include <algorithm>
#include <vector>

#include "path_problem.hpp"
#include "paths/relu_basis.hpp"

namespace attn::testing {

using Sizes = std::vector<Index>;

/// One node everywhere, no hidden layer, one output, wide and narrow layers, many layers.
inline std::vector<Sizes> relu_sizes() {
  return {{1, 1, 1}, {5, 7},       {3, 4, 2},       {2, 5, 1},
          {1, 3, 1}, {2, 5, 3, 2}, {4, 3, 3, 3, 2}, {2, 1, 4, 1, 3}};
}

inline ReluSkeleton random_skeleton(const ReluLayers& layers, Numbers& numbers) {
  ReluSkeleton skeleton;
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      skeleton.in.push_back(numbers.below(layers.size(l - 1)));
      skeleton.out.push_back(numbers.below(layers.size(l + 1)));
    }
  }
  return skeleton;
}

template <class T>
std::vector<Matrix<T>> random_network(const ReluLayers& layers, Numbers& numbers) {
  std::vector<Matrix<T>> weights;
  for (Index l = 1; l <= layers.count(); ++l) {
    weights.emplace_back(layers.size(l - 1), layers.size(l), numbers);
  }
  return weights;
}

template <class T>
ReluMatrices<T> views(std::vector<Matrix<T>>& matrices) {
  ReluMatrices<T> all;
  for (Matrix<T>& matrix : matrices) all.push_back(matrix.view());
  return all;
}

template <class T>
ReluMatrices<const T> const_views(const std::vector<Matrix<T>>& matrices) {
  ReluMatrices<const T> all;
  for (const Matrix<T>& matrix : matrices) all.push_back(matrix.view());
  return all;
}

/// The nodes of all paths.
inline std::vector<Sizes> all_relu_paths(const ReluLayers& layers) {
  std::vector<Sizes> paths(1);
  for (const Index size : layers.sizes()) {
    std::vector<Sizes> longer;
    for (const Sizes& path : paths) {
      for (Index node = 0; node < size; ++node) {
        longer.push_back(path);
        longer.back().push_back(node);
      }
    }
    paths = std::move(longer);
  }
  return paths;
}

template <class T>
long double relu_path_value(const std::vector<Matrix<T>>& weights, const Sizes& path) {
  long double value = 1;
  for (std::size_t l = 0; l < weights.size(); ++l) value *= weights[l](path[l], path[l + 1]);
  return value;
}

inline std::vector<Sizes> basis_of(const ReluBasis& basis) {
  std::vector<Sizes> paths;
  for (Index n = 0; n < basis.layers().rank(); ++n) {
    Sizes path(basis.layers().sizes().size());
    basis.path(n, path.data());
    paths.push_back(std::move(path));
  }
  return paths;
}

/// Half the squared error of the output for some inputs and targets.
struct ReluLoss {
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<double>> targets;

  ReluLoss(const ReluLayers& layers, Numbers& numbers) {
    const auto some = [&](Index count) {
      std::vector<double> values;
      for (Index n = 0; n < count; ++n) values.push_back(numbers());
      return values;
    };
    for (int n = 0; n < 6; ++n) {
      inputs.push_back(some(layers.size(0)));
      targets.push_back(some(layers.size(layers.count())));
    }
  }

  template <class T>
  static std::vector<std::vector<long double>> nodes(const std::vector<Matrix<T>>& weights,
                                                     const std::vector<double>& input) {
    std::vector<std::vector<long double>> layers = {{input.begin(), input.end()}};
    for (std::size_t l = 0; l < weights.size(); ++l) {
      std::vector<long double> sums(static_cast<std::size_t>(weights[l].cols), 0);
      for (std::size_t b = 0; b < sums.size(); ++b) {
        for (std::size_t a = 0; a < layers[l].size(); ++a) {
          sums[b] += layers[l][a] * weights[l](static_cast<Index>(a), static_cast<Index>(b));
        }
        if (l + 1 < weights.size()) sums[b] = std::max(sums[b], 0.0L);
      }
      layers.push_back(std::move(sums));
    }
    return layers;
  }

  template <class T>
  long double value(const std::vector<Matrix<T>>& weights) const {
    long double sum = 0;
    for (std::size_t n = 0; n < inputs.size(); ++n) {
      const auto output = nodes(weights, inputs[n]).back();
      for (std::size_t c = 0; c < output.size(); ++c) {
        sum += (output[c] - targets[n][c]) * (output[c] - targets[n][c]) / 2;
      }
    }
    return sum;
  }

  template <class T>
  std::vector<Matrix<T>> gradients(const std::vector<Matrix<T>>& weights) const {
    std::vector<Matrix<long double>> sums;
    for (const Matrix<T>& w : weights) sums.emplace_back(w.rows, w.cols);
    for (std::size_t n = 0; n < inputs.size(); ++n) {
      const auto layers = nodes(weights, inputs[n]);
      std::vector<long double> above = layers.back();
      for (std::size_t c = 0; c < above.size(); ++c) above[c] -= targets[n][c];
      for (std::size_t l = weights.size(); l-- > 0;) {
        std::vector<long double> below(layers[l].size(), 0);
        for (std::size_t a = 0; a < below.size(); ++a) {
          for (std::size_t b = 0; b < above.size(); ++b) {
            const auto row = static_cast<Index>(a);
            const auto col = static_cast<Index>(b);
            sums[l](row, col) += layers[l][a] * above[b];
            if (layers[l][a] > 0) below[a] += above[b] * weights[l](row, col);
          }
        }
        above = std::move(below);
      }
    }
    std::vector<Matrix<T>> rounded;
    for (const Matrix<long double>& sum : sums) rounded.emplace_back(sum);
    return rounded;
  }
};

}  // namespace attn::testing
