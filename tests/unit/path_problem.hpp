#pragma once

// Weights of one head and the gradients of a loss of their scores, for the tests of lib/paths.

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "paths/basis.hpp"
#include "paths/step.hpp"

namespace attn::testing {

inline constexpr Optimizer all_optimizers[] = {Optimizer::sgd, Optimizer::adam, Optimizer::si_sgd,
                                               Optimizer::si_adam, Optimizer::si_sgd_printed};

template <class T>
struct Matrix {
  Index rows = 0;
  Index cols = 0;
  std::vector<T> values;

  Matrix() = default;
  Matrix(Index row_count, Index col_count)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(rows * cols), T{0}) {}

  template <class Make>
  Matrix(Index row_count, Index col_count, Make& make) : Matrix(row_count, col_count) {
    for (T& value : values) value = static_cast<T>(make());
  }

  template <class Other>
  explicit Matrix(const Matrix<Other>& other) : Matrix(other.rows, other.cols) {
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<T>(other.values[n]);
  }

  T& operator()(Index i, Index j) { return values[static_cast<std::size_t>(i * cols + j)]; }
  const T& operator()(Index i, Index j) const {
    return values[static_cast<std::size_t>(i * cols + j)];
  }
  MatrixView<T> view() { return {values.data(), rows, cols}; }
  MatrixView<const T> view() const { return {values.data(), rows, cols}; }
  bool operator==(const Matrix&) const = default;
};

/// Critical sizes: one row, one column, more columns than rows, a stripe and one past it.
inline std::vector<std::pair<Index, Index>> path_sizes() {
  return {{1, 1}, {1, 5}, {2, 1}, {2, 2}, {3, 7}, {7, 3}, {4, 128}, {3, 129}};
}

/// Numbers of size 1/4 to 2 and either sign, so that a skeleton is not near 0.
class Numbers {
 public:
  explicit Numbers(unsigned seed) : random_(seed) {}

  double operator()() {
    const double size = std::uniform_real_distribution<double>(0.25, 2)(random_);
    return std::bernoulli_distribution(0.5)(random_) ? size : -size;
  }

  Index below(Index count) { return std::uniform_int_distribution<Index>(0, count - 1)(random_); }

 private:
  std::mt19937_64 random_;
};

inline Skeleton random_skeleton(Index rows, Index columns, Numbers& numbers) {
  Skeleton skeleton;
  for (Index c = 0; c < columns; ++c) {
    skeleton.q.push_back(numbers.below(rows));
    skeleton.k.push_back(numbers.below(rows));
  }
  return skeleton;
}

/// A loss of the values of all paths, Σ w p + ½ Σ w' p² with random w, and its gradients.
struct PathLoss {
  Index rows;
  Index columns;
  std::vector<double> linear;
  std::vector<double> square;

  PathLoss(Index d1, Index d2, Numbers& numbers) : rows(d1), columns(d2) {
    for (Index n = 0; n < d1 * d1 * d2; ++n) {
      linear.push_back(numbers());
      square.push_back(std::abs(numbers()));
    }
  }

  std::size_t at(Index i, Index j, Index c) const {
    return static_cast<std::size_t>((i * rows + j) * columns + c);
  }

  template <class T>
  void gradients(const Matrix<T>& wq, const Matrix<T>& wk, Matrix<T>& grad_wq,
                 Matrix<T>& grad_wk) const {
    Matrix<long double> of_q(rows, columns);
    Matrix<long double> of_k(rows, columns);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < rows; ++j) {
        for (Index c = 0; c < columns; ++c) {
          const long double q = wq(i, c);
          const long double k = wk(j, c);
          const long double slope = linear[at(i, j, c)] + square[at(i, j, c)] * q * k;
          of_q(i, c) += slope * k;
          of_k(j, c) += slope * q;
        }
      }
    }
    grad_wq = Matrix<T>(of_q);
    grad_wk = Matrix<T>(of_k);
  }

  /// The loss of one column as a function of the values of its basis paths (2 d1 − 1): other paths
  /// are p₁p₂/p₃.
  long double of_basis(const std::vector<long double>& basis, Index q, Index k, Index c) const {
    long double sum = 0;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < rows; ++j) {
        const long double first = basis[static_cast<std::size_t>(i)];
        const auto other = static_cast<std::size_t>(rows + j - (j > k ? 1 : 0));
        const long double value =
            j == k ? first : first * basis[other] / basis[static_cast<std::size_t>(q)];
        sum += linear[at(i, j, c)] * value + square[at(i, j, c)] * value * value / 2;
      }
    }
    return sum;
  }
};

template <class T>
struct PathProblem {
  Skeleton skeleton;
  PathLoss loss;
  Matrix<T> wq, wk, grad_wq, grad_wk, first, second;

  PathProblem(Index rows, Index columns, unsigned seed)
      : PathProblem(rows, columns, Numbers(seed)) {}

  PathProblem(Index rows, Index columns, Numbers numbers)
      : skeleton(random_skeleton(rows, columns, numbers)),
        loss(rows, columns, numbers),
        wq(rows, columns, numbers),
        wk(rows, columns, numbers),
        first(2 * rows, columns),
        second(2 * rows, columns) {
    find_gradients();
  }

  void find_gradients() { loss.gradients(wq, wk, grad_wq, grad_wk); }

  StepMatrices<T> matrices() {
    return {wq.view(), wk.view(), grad_wq.view(), grad_wk.view(), first.view(), second.view()};
  }

  double squared_gradients() const {
    StepMatrices<const T> m;
    m.wq = wq.view();
    m.wk = wk.view();
    m.grad_wq = grad_wq.view();
    m.grad_wk = grad_wk.view();
    return squared_path_gradients(skeleton, m);
  }

  StepSummary step(const StepOptions& options, int threads = 1) {
    return attn::step(options, skeleton, matrices(), threads);
  }
};

}  // namespace attn::testing
