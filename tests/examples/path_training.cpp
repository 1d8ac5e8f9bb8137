// Trains W_Q and W_K of a head on the values of their basis paths. Attention scores are fitted to
// random targets by gradient descent, from weights (W_Q, W_K) and from rescalings with the same
// scores: W_Q[:,c] f_c, W_K[:,c] / f_c. Prints the largest difference between the losses of the
// runs, relative to the loss. Training on the values of basis paths does not depend on the
// rescaling; training on the weights does, and so does the algorithm as published. Exits with 1 if
// a run contradicts this.

#include <attnkit/basis_paths.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using attn::Index;
using attn::Optimizer;
using Matrix = std::vector<double>;  // row-major

constexpr Index tokens = 24;
constexpr Index rows = 10;
constexpr Index columns = 6;
constexpr Index steps = 200;
constexpr double rate = 0.001;

Matrix normal(unsigned seed, Index count, double spread) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> distribution(0, spread);
  Matrix values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(random);
  return values;
}

double& at(Matrix& values, Index cols, Index i, Index j) {
  return values[static_cast<std::size_t>(i * cols + j)];
}
double at(const Matrix& values, Index cols, Index i, Index j) {
  return values[static_cast<std::size_t>(i * cols + j)];
}

// a b, or aᵀ b.
Matrix product(const Matrix& a, Index a_cols, bool transposed, const Matrix& b, Index b_cols) {
  const Index a_rows = static_cast<Index>(a.size()) / a_cols;
  const Index count = transposed ? a_cols : a_rows;
  const Index inner = transposed ? a_rows : a_cols;
  Matrix result(static_cast<std::size_t>(count * b_cols), 0.0);
  for (Index i = 0; i < count; ++i) {
    for (Index m = 0; m < inner; ++m) {
      const double factor = transposed ? at(a, a_cols, m, i) : at(a, a_cols, i, m);
      for (Index j = 0; j < b_cols; ++j) {
        at(result, b_cols, i, j) += factor * at(b, b_cols, m, j);
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
  Matrix x = normal(41, tokens* rows, 1);
  Matrix target = normal(42, tokens* tokens, 4);

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
          score += at(q, columns, i, c) * at(k, columns, j, c);
        }
        const double difference = scale * score - at(target, tokens, i, j);
        sum += difference * difference;
        at(residual, tokens, i, j) = scale * difference / tokens;
      }
    }
    gradient.q = product(x, rows, true, product(residual, tokens, false, k, columns), columns);
    gradient.k = product(x, rows, true, product(residual, tokens, true, q, columns), columns);
    return sum / (2 * tokens);
  }
};

// Returns the loss before every step and after the last; counts columns that a step left unchanged.
std::vector<double> train(const Regression& problem, Optimizer optimizer, Weights weights,
                          std::size_t& singular) {
  const attn::Shape shape = {rows, columns};
  Weights gradient;
  std::vector<double> losses = {problem.loss(weights, gradient)};
  attn::PathInputs<double> in;
  in.wq = {weights.q.data(), shape};
  in.wk = {weights.k.data(), shape};
  in.grad_wq = {gradient.q.data(), shape};
  in.grad_wk = {gradient.k.data(), shape};
  attn::PathPlan<double> plan(attn::shapes_of(in), {.optimizer = optimizer}, 1);
  in.skeletons = plan.cyclic_skeletons();
  const attn::Shape of_moments = plan.moments_shape();
  Matrix first(static_cast<std::size_t>(of_moments[0] * columns), 0.0);
  Matrix second(first);
  attn::PathOutputs<double> out;  // in place
  out.wq = {weights.q.data(), shape};
  out.wk = {weights.k.data(), shape};
  out.first_moment = {first.data(), of_moments};
  out.second_moment = {second.data(), of_moments};
  for (Index number = 1; number <= steps; ++number) {
    plan.set_step(number, rate);
    const auto summaries = plan.run(in, out);
    singular += summaries.front().singular.size();
    losses.push_back(problem.loss(weights, gradient));
    // loss() has made new matrices.
    in.grad_wq.data = gradient.q.data();
    in.grad_wk.data = gradient.k.data();
  }
  return losses;
}

Weights rescaled(Weights weights, const Matrix& factors) {
  for (Index i = 0; i < rows; ++i) {
    for (Index c = 0; c < columns; ++c) {
      at(weights.q, columns, i, c) *= factors[static_cast<std::size_t>(c)];
      at(weights.k, columns, i, c) /= factors[static_cast<std::size_t>(c)];
    }
  }
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
  // The published algorithm assumes a skeleton of ones.
  Weights start{normal(43, rows * columns, 0.5), normal(44, rows * columns, 0.5)};
  for (Index c = 0; c < columns; ++c) {
    at(start.q, columns, c % rows, c) = 1;
    at(start.k, columns, c % rows, c) = 1;
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
  std::size_t singular = 0;
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
  // A singular column is not trained.
  as_expected = as_expected && singular == 0;
  return as_expected ? 0 : 1;
}
