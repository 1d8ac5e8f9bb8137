#include "fenchel/closed_forms.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "fenchel/each_query.hpp"
#include "fenchel/space.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/eigen_map.hpp"
#include "kernel/factor.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using namespace fenchel;

// The values of one preference at λ = 0.
class Origin : public FromPool {
 public:
  Origin(const ScaledCost* cost, const double* u, const Templates& templates)
      : templates_(templates), divergence_(cost, u, templates.count()) {}

  bool is_empty() const { return divergence_.is_empty(); }
  Divergence& divergence() const { return *divergence_; }

  // The factor of I/α + Σ. Σ is rounded, so the diagonal may need a small addition.
  MatrixView<const double> hessian_factor(double alpha) {
    if (alpha != factored_for_) factor(alpha);
    return hessian_.read();
  }

 private:
  void factor(double alpha) {
    const Index d = templates_.depth();
    OwnedMatrix<double> p(1, templates_.count()), mean(1, d), zero(1, templates_.count());
    std::fill_n(zero.row(0), templates_.count(), 0.0);
    divergence_->evaluate(zero.row(0), p.row(0));
    templates_.means(p.read(), mean.view());
    hessian_ = OwnedMatrix<double>(d, d);
    auto hessian = kernel::eigen_map(hessian_.view());
    double more = 0;
    for (bool factored = false; !factored;) {
      hessian.setZero();
      divergence_->add_hessian(templates_.centred().read(), p.row(0), mean.row(0), hessian_.view());
      const double trace = hessian.trace();
      hessian.diagonal().array() += 1 / alpha + more;
      factored = kernel::cholesky(hessian_.view());
      more = std::max(10 * more, 1e-15 * (trace + 1 / alpha));
    }
    factored_for_ = alpha;
  }

  const Templates& templates_;
  OwnedDivergence divergence_;
  OwnedMatrix<double> hessian_;
  double factored_for_ = 0;  // α
};

class ClosedFormSolver {
 public:
  // `alphas` are by query; problem.alpha is the largest of them.
  ClosedFormSolver(const DualProblem& problem, std::span<const double> alphas,
                   const ClosedForms& results)
      : problem_(problem),
        alphas_(alphas),
        results_(results),
        all_(problem.templates),
        // Finding the span pays if this shrinks the matrix of the second order.
        space_(all_, results.h_second_order.rows > 0 && all_.count() < all_.depth()) {
    require_range(problem, all_);
    if (problem.transport) cost_ = std::make_unique<ScaledCost>(*problem.transport, all_.count());
  }

  void solve(int threads) {
    const bool shared = problem_.preference.rows == 1;
    PooledVector<std::unique_ptr<Origin>> origins(static_cast<std::size_t>(threads));
    const auto solve_query = [&](Index q, int worker) {
      auto& origin = origins[static_cast<std::size_t>(worker)];
      if (!shared || !origin) {
        origin = std::make_unique<Origin>(cost_.get(), problem_.preference.row(shared ? 0 : q),
                                          space_.templates());
      }
      solve_one(*origin, q);
    };
    for_each_query(problem_.evidence.rows, threads, solve_query, [&](Index q, const auto& visit) {
      visit_rows({results_.h_first_order, results_.p_first_order, results_.h_second_order}, q,
                 visit);
    });
  }

 private:
  void solve_one(Origin& origin, Index q) const {
    const Index d = space_.depth();
    const double alpha = alphas_[static_cast<std::size_t>(q)];
    for (const MatrixView<double>& h : {results_.h_first_order, results_.h_second_order}) {
      if (h.rows > 0 && origin.is_empty()) std::fill_n(h.row(q), all_.depth(), 0.0);
    }
    const MatrixView<double>& weights = results_.p_first_order;
    if (weights.rows > 0 && origin.is_empty()) std::fill_n(weights.row(q), all_.count(), 0.0);
    if (origin.is_empty()) return;
    OwnedMatrix<double> lambda(1, d), p(1, all_.count()), mean(1, d);
    if (results_.h_first_order.rows > 0 || weights.rows > 0) {
      space_.project(problem_.evidence.row_range(q, 1), lambda.view());
      for (Index c = 0; c < d; ++c) lambda.row(0)[c] *= alpha;
      find_mean(origin, lambda, p, mean);
      if (weights.rows > 0) std::copy_n(p.row(0), all_.count(), weights.row(q));
      if (results_.h_first_order.rows > 0) write_mean(mean, results_.h_first_order.row_range(q, 1));
    }
    if (results_.h_second_order.rows > 0) {
      space_.project(problem_.evidence.row_range(q, 1), lambda.view());
      if (alpha == 0) {
        std::fill_n(lambda.row(0), d, 0.0);
      } else {
        kernel::cholesky_solve(origin.hessian_factor(alpha), lambda.row(0));
      }
      find_mean(origin, lambda, p, mean);
      write_mean(mean, results_.h_second_order.row_range(q, 1));
    }
  }

  void find_mean(const Origin& origin, const OwnedMatrix<double>& lambda, OwnedMatrix<double>& p,
                 OwnedMatrix<double>& mean) const {
    const Templates& templates = space_.templates();
    OwnedMatrix<double> logits(1, templates.count());
    templates.logits(lambda.read(), logits.view());
    origin.divergence().evaluate(logits.row(0), p.row(0));
    templates.means(p.read(), mean.view());
  }

  void write_mean(const OwnedMatrix<double>& mean, MatrixView<double> out) const {
    std::copy_n(all_.centre().data(), all_.depth(), out.row(0));
    space_.add_lifted(mean.read(), out);
  }

  const DualProblem& problem_;
  const std::span<const double> alphas_;
  const ClosedForms& results_;
  Templates all_;
  Space space_;
  std::unique_ptr<ScaledCost> cost_;
};

}  // namespace

void closed_forms(const DualProblem& problem, std::span<const double> alphas, int threads,
                  const ClosedForms& results) {
  if (!results.any()) return;
  require_shapes(problem);
  DualProblem largest = problem;
  largest.alpha = *std::max_element(alphas.begin(), alphas.end());
  ClosedFormSolver(largest, alphas, results).solve(threads);
}

namespace {

// ‖x‖ = size · 2^exponent, whose squares neither over- nor underflow.
struct Norm {
  double size = 0;
  int exponent = 0;
};

template <class Component>
Norm norm_of(Index depth, const Component& component) {
  double largest = 0;
  for (Index c = 0; c < depth; ++c) largest = std::max(largest, std::abs(component(c)));
  if (largest == 0) return {};
  Norm norm{0, std::isfinite(largest) ? std::ilogb(largest) : 0};
  for (Index c = 0; c < depth; ++c) {
    const double scaled = std::scalbn(component(c), -norm.exponent);
    norm.size += scaled * scaled;
  }
  norm.size = std::sqrt(norm.size);
  return norm;
}

}  // namespace

double relative_deviation(const double* lambda, const double* evidence, Index depth, double alpha) {
  const Norm away = norm_of(depth, [&](Index c) { return lambda[c] - alpha * evidence[c]; });
  const Norm whole = norm_of(depth, [&](Index c) { return lambda[c]; });
  if (away.size == 0) return 0;
  return std::scalbn(away.size / whole.size, away.exponent - whole.exponent);
}

}  // namespace attn
