#include "reference/fenchel_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::reference {
namespace {

using Vector = std::vector<long double>;

struct Evaluation {
  long double partition = 0;  // Ψ
  Vector p;
  std::vector<Vector> conditional;  // for transport: p(t | source i)
};

class Problem {
 public:
  Problem(const DualProblem& problem, Index query)
      : problem_(problem), n_(problem.templates.rows), d_(problem.templates.cols) {
    const double* u = problem.preference.row(problem.preference.rows == 1 ? 0 : query);
    long double total = 0;
    for (Index i = 0; i < n_; ++i) total += u[i];
    for (Index i = 0; i < n_; ++i) u_.push_back(u[i] / total);
    const Evaluation origin = evaluate(Vector(size(d_), 0));
    target_ = mean(origin.p);
    for (Index c = 0; c < d_; ++c) target_[size(c)] += problem.evidence(query, c);
  }

  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  long double t(Index i, Index c) const { return problem_.templates(i, c); }

  Vector mean(const Vector& p) const {
    Vector sum(size(d_), 0);
    for (Index i = 0; i < n_; ++i) {
      for (Index c = 0; c < d_; ++c) sum[size(c)] += p[size(i)] * t(i, c);
    }
    return sum;
  }

  Evaluation evaluate(const Vector& lambda) const {
    Vector logits(size(n_), 0);
    for (Index i = 0; i < n_; ++i) {
      for (Index c = 0; c < d_; ++c) logits[size(i)] += t(i, c) * lambda[size(c)];
    }
    Evaluation found;
    if (!problem_.transport) {
      found.partition = softmax(logits, u_, found.p);
      return found;
    }
    const long double gamma = problem_.transport->gamma;
    found.p.assign(size(n_), 0);
    for (Index i = 0; i < n_; ++i) {
      Vector weights;
      if (u_[size(i)] > 0) {
        Vector shifted(size(n_));
        Vector open(size(n_), 1);
        for (Index j = 0; j < n_; ++j) {
          const long double cost = problem_.transport->cost(j, i);
          open[size(j)] = std::isinf(cost) ? 0 : 1;
          shifted[size(j)] = open[size(j)] > 0 ? (logits[size(j)] - cost) / gamma : 0;
        }
        const long double log_sum = softmax(shifted, open, weights);
        found.partition += gamma * u_[size(i)] * (log_sum - std::log(u_[size(i)]));
        for (Index j = 0; j < n_; ++j) found.p[size(j)] += u_[size(i)] * weights[size(j)];
      }
      found.conditional.push_back(weights);
    }
    return found;
  }

  Vector gradient(const Vector& lambda, const Evaluation& at) const {
    Vector g = mean(at.p);
    for (Index c = 0; c < d_; ++c) {
      g[size(c)] = target_[size(c)] - lambda[size(c)] / problem_.alpha - g[size(c)];
    }
    return g;
  }

  long double dual(const Vector& lambda, const Evaluation& at) const {
    long double value = -at.partition;
    for (Index c = 0; c < d_; ++c) {
      value += lambda[size(c)] * (target_[size(c)] - lambda[size(c)] / (2.0L * problem_.alpha));
    }
    return value;
  }

  long double primal(const Evaluation& at) const {
    const Vector h = mean(at.p);
    long double value = 0;
    for (Index c = 0; c < d_; ++c) {
      const long double away = target_[size(c)] - h[size(c)];
      value += problem_.alpha / 2.0L * away * away;
    }
    for (Index i = 0; i < n_; ++i) {
      if (!problem_.transport) {
        if (at.p[size(i)] > 0) value += at.p[size(i)] * std::log(at.p[size(i)] / u_[size(i)]);
        continue;
      }
      if (!(u_[size(i)] > 0)) continue;
      for (Index j = 0; j < n_; ++j) {
        const long double plan = u_[size(i)] * at.conditional[size(i)][size(j)];
        if (!(plan > 0)) continue;
        value += plan * problem_.transport->cost(j, i);
        value += problem_.transport->gamma * plan * std::log(plan);
      }
    }
    return value;
  }

  // −∇²D (d, d).
  std::vector<Vector> curvature(const Evaluation& at) const {
    std::vector<Vector> h(size(d_), Vector(size(d_), 0));
    const auto add = [&](const Vector& p, long double factor) {
      const Vector centre = mean(p);
      for (Index i = 0; i < n_; ++i) {
        if (!(p[size(i)] > 0)) continue;
        for (Index a = 0; a < d_; ++a) {
          const long double left = factor * p[size(i)] * (t(i, a) - centre[size(a)]);
          for (Index b = 0; b <= a; ++b) h[size(a)][size(b)] += left * (t(i, b) - centre[size(b)]);
        }
      }
    };
    if (!problem_.transport) add(at.p, 1);
    for (Index i = 0; problem_.transport && i < n_; ++i) {
      if (u_[size(i)] > 0) {
        add(at.conditional[size(i)],
            u_[size(i)] / static_cast<long double>(problem_.transport->gamma));
      }
    }
    for (Index a = 0; a < d_; ++a) h[size(a)][size(a)] += 1.0L / problem_.alpha;
    return h;
  }

 private:
  // log Σ w exp(s) and the weights, where w > 0.
  static long double softmax(const Vector& s, const Vector& w, Vector& p) {
    long double most = -std::numeric_limits<long double>::infinity();
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (w[i] > 0) most = std::max(most, s[i] + std::log(w[i]));
    }
    p.assign(s.size(), 0);
    long double total = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (w[i] > 0) p[i] = std::exp(s[i] + std::log(w[i]) - most);
      total += p[i];
    }
    for (long double& value : p) value /= total;
    return most + std::log(total);
  }

  const DualProblem& problem_;
  Index n_;
  Index d_;
  Vector u_;
  Vector target_;
};

// Solves h x = b by Cholesky, h given by its lower triangle.
Vector solve(std::vector<Vector> h, Vector b) {
  const std::size_t d = b.size();
  for (std::size_t j = 0; j < d; ++j) {
    for (std::size_t k = 0; k < j; ++k) h[j][j] -= h[j][k] * h[j][k];
    h[j][j] = std::sqrt(h[j][j]);
    for (std::size_t i = j + 1; i < d; ++i) {
      for (std::size_t k = 0; k < j; ++k) h[i][j] -= h[i][k] * h[j][k];
      h[i][j] /= h[j][j];
    }
  }
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= h[i][k] * b[k];
    b[i] /= h[i][i];
  }
  for (std::size_t i = d; i-- > 0;) {
    for (std::size_t k = i + 1; k < d; ++k) b[i] -= h[k][i] * b[k];
    b[i] /= h[i][i];
  }
  return b;
}

long double norm(const Vector& x) {
  long double sum = 0;
  for (const long double value : x) sum += value * value;
  return std::sqrt(sum);
}

// Halves a step until the value improves; where rounding hides that, until the gradient is smaller.
Vector newton(const Problem& of, Vector lambda) {
  const std::size_t d = lambda.size();
  Evaluation at = of.evaluate(lambda);
  Vector gradient = of.gradient(lambda, at);
  for (int n = 0; n < 1000; ++n) {
    const Vector step = solve(of.curvature(at), gradient);
    long double slope = 0;
    for (std::size_t c = 0; c < d; ++c) slope += step[c] * gradient[c];
    bool better = false;
    for (long double t = 1; t > 1e-12L && !better; t /= 2) {
      Vector next = lambda;
      for (std::size_t c = 0; c < d; ++c) next[c] += t * step[c];
      const Evaluation there = of.evaluate(next);
      const Vector gradient_there = of.gradient(next, there);
      better = of.dual(next, there) >= of.dual(lambda, at) + t / 4 * slope && slope > 1e-20L;
      better = better || norm(gradient_there) < 0.9L * norm(gradient);
      if (!better) continue;
      lambda = next;
      at = there;
      gradient = gradient_there;
    }
    if (!better) break;
  }
  return lambda;
}

}  // namespace

Dual solve_dual(const DualProblem& problem, Index query) {
  // Starts from an α at which the problem is smooth, then takes four times that, and so on: far
  // from λ* Newton's method may see no curvature at all.
  long double reach = 1;
  for (Index i = 0; i < problem.templates.rows; ++i) {
    long double square = 0;
    for (Index c = 0; c < problem.templates.cols; ++c) {
      square += std::pow(static_cast<long double>(problem.templates(i, c)), 2);
    }
    reach = std::max(reach, square);
  }
  const auto alpha = static_cast<long double>(problem.alpha);
  long double stage = alpha;
  while (stage * reach > 4) stage /= 4;
  DualProblem easier = problem;
  Vector lambda(static_cast<std::size_t>(problem.templates.cols), 0);
  for (; stage < alpha; stage *= 4) {
    easier.alpha = static_cast<double>(stage);
    lambda = newton(Problem(easier, query), lambda);
  }
  const Problem of(problem, query);
  lambda = newton(of, lambda);
  const Evaluation at = of.evaluate(lambda);
  const Vector gradient = of.gradient(lambda, at);
  return {lambda, at.p, of.mean(at.p), norm(gradient), of.primal(at), of.dual(lambda, at)};
}

}  // namespace attn::reference
