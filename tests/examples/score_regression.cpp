// Attention scores are fitted to random targets by gradient descent, from weights (W_Q, W_K) and
// from rescalings of them that give the same scores: W_Q[:,c] f_c, W_K[:,c] / f_c. Prints by how
// much the losses of the runs differ, at most, relative to the loss. Descent on the values of basis
// paths does not see the rescaling; descent on the weights does, and so does the algorithm as it
// was published. Exits with 1 where that is not so.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "paths/rescale.hpp"
#include "paths/step.hpp"
#include "tensor/random.hpp"

namespace {

using attn::Index;
using attn::MatrixView;
using attn::Optimizer;
using Matrix = std::vector<double>;

constexpr Index tokens = 24;
constexpr Index rows = 10;
constexpr Index columns = 6;
constexpr Index steps = 200;
constexpr double rate = 0.001;

Matrix normal(const char* name, Index count, double spread) {
  Matrix values(static_cast<std::size_t>(count));
  attn::RandomStream(3, name).normal(0, count, values.data());
  for (double& value : values) value *= spread;
  return values;
}

MatrixView<double> view(Matrix& values, Index cols) {
  return {values.data(), static_cast<Index>(values.size()) / cols, cols};
}

MatrixView<const double> view(const Matrix& values, Index cols) {
  return {values.data(), static_cast<Index>(values.size()) / cols, cols};
}

// a b, or aᵀ b.
Matrix product(const Matrix& a, Index a_cols, bool transposed, const Matrix& b, Index b_cols) {
  const MatrixView<const double> left = view(a, a_cols);
  const MatrixView<const double> right = view(b, b_cols);
  const Index count = transposed ? left.cols : left.rows;
  Matrix result(static_cast<std::size_t>(count * b_cols), 0.0);
  for (Index i = 0; i < count; ++i) {
    for (Index m = 0; m < right.rows; ++m) {
      const double factor = transposed ? left(m, i) : left(i, m);
      for (Index j = 0; j < b_cols; ++j) {
        result[static_cast<std::size_t>(i * b_cols + j)] += factor * right(m, j);
      }
    }
  }
  return result;
}

struct Weights {
  Matrix q;
  Matrix k;
};

// 1/(2 tokens) Σ (s − t)² with s = x W_Q (x W_K)ᵀ / √d2, and its gradients.
struct Regression {
  Matrix x = normal("x", tokens* rows, 1);
  Matrix target = normal("target", tokens* tokens, 4);

  double loss(const Weights& weights, Weights& gradient) const {
    const Matrix q = product(x, rows, false, weights.q, columns);
    const Matrix k = product(x, rows, false, weights.k, columns);
    const double scale = 1 / std::sqrt(static_cast<double>(columns));
    Matrix residual(static_cast<std::size_t>(tokens * tokens));
    double sum = 0;
    for (Index i = 0; i < tokens; ++i) {
      for (Index j = 0; j < tokens; ++j) {
        double score = 0;
        for (Index c = 0; c < columns; ++c) {
          score += view(q, columns)(i, c) * view(k, columns)(j, c);
        }
        const auto at = static_cast<std::size_t>(i * tokens + j);
        const double difference = scale * score - target[at];
        sum += difference * difference;
        residual[at] = scale * difference / tokens;
      }
    }
    gradient.q = product(x, rows, true, product(residual, tokens, false, k, columns), columns);
    gradient.k = product(x, rows, true, product(residual, tokens, true, q, columns), columns);
    return sum / (2 * tokens);
  }
};

std::vector<double> train(const Regression& problem, Optimizer optimizer, Weights weights,
                          Index& singular) {
  attn::StepOptions options;
  options.optimizer = optimizer;
  options.rate = rate;
  const attn::Skeleton skeleton = attn::cyclic_skeleton(rows, 0, columns);
  Matrix first(static_cast<std::size_t>(2 * rows * columns), 0.0);
  Matrix second(first);
  Weights gradient;
  attn::StepMatrices<double> matrices;
  matrices.wq = view(weights.q, columns);
  matrices.wk = view(weights.k, columns);
  matrices.first_moment = view(first, columns);
  matrices.second_moment = view(second, columns);
  std::vector<double> losses;
  for (Index n = 1; n <= steps; ++n) {
    losses.push_back(problem.loss(weights, gradient));
    matrices.grad_wq = view(gradient.q, columns);
    matrices.grad_wk = view(gradient.k, columns);
    options.number = n;
    singular += !attn::step(options, skeleton, matrices, 1).singular.empty() ? 1 : 0;
  }
  losses.push_back(problem.loss(weights, gradient));
  return losses;
}

Weights rescaled(Weights weights, const Matrix& factors) {
  attn::rescale_columns<double>(view(weights.q, columns), factors, attn::Rescaled::times);
  attn::rescale_columns<double>(view(weights.k, columns), factors, attn::Rescaled::over);
  return weights;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    most = std::max(most, std::abs(a[n] - b[n]) / std::abs(b[n]));
  }
  return most;
}

}  // namespace

int main() {
  const Regression problem;
  // A skeleton of ones, as the algorithm was published for.
  Weights start{normal("wq", rows * columns, 0.5), normal("wk", rows * columns, 0.5)};
  const attn::Skeleton skeleton = attn::cyclic_skeleton(rows, 0, columns);
  for (Index c = 0; c < columns; ++c) {
    view(start.q, columns)(skeleton.q_of(c), c) = 1;
    view(start.k, columns)(skeleton.k_of(c), c) = 1;
  }
  const Matrix powers = {2, -0.5, 4, -1, 0.5, -2};
  const Matrix others = {0.5, -3, 1.7, -0.6, 2.3, -1.1};

  struct Row {
    const char* name;
    Optimizer optimizer;
    bool sees_no_scale;
  };
  const Row table[] = {{"sgd", Optimizer::sgd, false},
                       {"si-sgd-printed", Optimizer::si_sgd_printed, false},
                       {"si-sgd", Optimizer::si_sgd, true},
                       {"adam", Optimizer::adam, false},
                       {"si-adam", Optimizer::si_adam, true}};
  std::printf("%-16s %10s %10s %16s %16s\n", "", "first", "last loss", "f = +-2^n",
              "0.5 <= |f| <= 3");
  bool as_expected = true;
  Index singular = 0;
  for (const Row& row : table) {
    const std::vector<double> losses = train(problem, row.optimizer, start, singular);
    const double of_powers =
        difference(train(problem, row.optimizer, rescaled(start, powers), singular), losses);
    const double of_others =
        difference(train(problem, row.optimizer, rescaled(start, others), singular), losses);
    std::printf("%-16s %10.4f %10.4f %16.2g %16.2g\n", row.name, losses.front(), losses.back(),
                of_powers, of_others);
    as_expected = as_expected && losses.back() < losses.front();
    as_expected = as_expected && (row.sees_no_scale ? of_powers == 0 && of_others <= 1e-9
                                                    : of_powers > 1e-3 && of_others > 1e-3);
  }
  // Else a column stood still.
  as_expected = as_expected && singular == 0;
  return as_expected ? 0 : 1;
}
