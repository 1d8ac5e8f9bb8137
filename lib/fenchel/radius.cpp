#include "fenchel/radius.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <boost/math/tools/toms748_solve.hpp>

#include "attnkit/error.hpp"
#include "fenchel/dense_newton.hpp"
#include "fenchel/each_query.hpp"
#include "fenchel/hull_distance.hpp"
#include "fenchel/space.hpp"
#include "kernel/conjugate.hpp"

namespace attn {
namespace {

using namespace fenchel;

// The relative distance from r to the least squared distance at which they count as equal.
constexpr double same_distance = 1e-9;

// One query, in the coordinates of a Space.
class RadiusQuery {
 public:
  RadiusQuery(const Templates& templates, DenseNewton& newton, Divergence& divergence,
              double square_radius, const DualOptions& options)
      : templates_(templates),
        newton_(newton),
        divergence_(divergence),
        square_radius_(square_radius),
        options_(options),
        inner_(options),
        evidence_(1, templates.depth()),
        target_(1, templates.depth()),
        lambda_(1, templates.depth()),
        mean_(1, templates.depth()),
        away_(1, templates.depth()),
        p_(1, templates.count()),
        logits_(1, templates.count()) {
    inner_.tolerance = options.tolerance / 100;
  }

  double* evidence() { return evidence_.row(0); }
  const OwnedMatrix<double>& lambda() const { return lambda_; }
  const OwnedMatrix<double>& mean() const { return mean_; }
  const OwnedMatrix<double>& p() const { return p_; }

  /// Solves for the evidence that has been written. `apart` is the square of the part of z outside
  /// the coordinates, which no p can change. Throws Error(numerical) if no p is near enough.
  DualSummary solve(double apart, Index query) {
    apart_ = apart;
    const Index d = templates_.depth();
    std::fill_n(lambda_.row(0), d, 0.0);
    evaluate();
    std::copy_n(mean_.row(0), d, target_.row(0));
    kernel::axpy(target_.row(0), evidence_.row(0), d, 1);
    const double square = square_distance();
    if (square <= square_radius_) return certified();
    const double reach = templates_.largest_norm();
    if (reach == 0) {  // u is the only p
      if (!is_limit(square, square)) refuse(square, query);
      summary_.at_limit = true;
      return certified();
    }
    // ‖μ + z − ĥ‖ >= ‖z‖/(1 + α·reach²): covariances of the templates are at most reach².
    const double room = std::sqrt(std::max(square_radius_ - apart_, 0.0));
    const double inside = std::sqrt(square - apart_);
    double low = (room > 0 ? std::max(inside / room - 1, 0.0) : 1) / (reach * reach);
    // Rounding may leave no room below α.
    low = std::max(low, std::numeric_limits<double>::min() / same_distance);
    if (!(low * reach * (inside + 2 * reach) < dual_range)) refuse_range(query);
    for (solve_at(low); nearer_at(low) <= 0 && low > smallest; low /= 8) solve_at(low / 8);
    bool bracketed = false;
    double high = low;
    for (double before = square; !bracketed && !is_out_of_steps();) {
      low = high;
      high *= 8;
      if (!(high * reach * reach < largest_alpha)) break;
      solve_at(high);
      const double now = square_distance();
      bracketed = nearer_at(high) <= 0;
      if (bracketed || now > 0.9 * before) {
        const double least = hull_distance();
        if (least * least > square_radius_ * (1 + same_distance)) refuse(least * least, query);
        if (is_limit(least * least, now)) {
          summary_.at_limit = true;
          return certified();
        }
      }
      before = now;
    }
    if (bracketed) {
      find_root(low, high);
    } else {
      refuse_outside(query);
    }
    return certified();
  }

 private:
  static constexpr double smallest = 1e-280;
  // In units of 1/reach²; beyond it, logits have no digits left that move the mean.
  static constexpr double largest_alpha = 1e15;

  bool is_limit(double least, double now) const {
    return least >= square_radius_ * (1 - same_distance) &&
           now <= square_radius_ * (1 + same_distance);
  }

  // Throws Error(numerical) if no mean of the templates is within the radius.
  void refuse_outside(Index query) {
    const double least = hull_distance();
    if (least * least > square_radius_ * (1 + same_distance)) refuse(least * least, query);
  }

  [[noreturn]] void refuse_range(Index query) {
    refuse_outside(query);
    throw Error(Failure::numerical,
                "query " + std::to_string(query) + ": the radius " + number_text(square_radius_) +
                    " needs an alpha beyond the range of logits",
                "a larger radius");
  }

  [[noreturn]] void refuse(double least, Index query) const {
    throw Error(Failure::numerical,
                "query " + std::to_string(query) +
                    ": the squared distance of mu + z to any mean of the "
                    "templates is at least " +
                    number_text(least) + ", and the radius is " + number_text(square_radius_),
                "a larger radius");
  }

  static std::string number_text(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", number);
    return text;
  }

  bool is_out_of_steps() const { return summary_.iterations >= options_.max_iterations; }

  // p, its mean, and Ψ at λ.
  void evaluate() {
    templates_.logits(lambda_.read(), logits_.view());
    partition_ = divergence_.evaluate(logits_.row(0), p_.row(0));
    templates_.means(p_.read(), mean_.view());
  }

  void solve_at(double alpha) {
    const Index used = summary_.iterations;
    inner_.max_iterations = options_.max_iterations - used;
    summary_ = newton_.solve(divergence_, target_.row(0), alpha, inner_, lambda_.row(0), p_.row(0),
                             mean_.row(0));
    summary_.iterations += used;
    summary_.alpha = alpha;
  }

  double square_distance() {
    const Index d = templates_.depth();
    std::copy_n(target_.row(0), d, away_.row(0));
    kernel::axpy(away_.row(0), mean_.row(0), d, -1);
    return kernel::dot(away_.row(0), away_.row(0), d) + apart_;
  }

  // log(‖λ‖/α) − log √r, where ‖λ‖/α is the distance without the rounding of a difference.
  double nearer_at(double alpha) const {
    const double square = kernel::dot(lambda_.row(0), lambda_.row(0), templates_.depth());
    return std::log((square / alpha / alpha + apart_) / square_radius_) / 2;
  }

  double hull_distance() {
    square_distance();
    const double inside =
        distance_from_hull(templates_.centred().read(), divergence_.closed(),
                           {target_.row(0), away_.row(0), mean_.row(0), p_.row(0)});
    return std::sqrt(inside * inside + apart_);
  }

  void find_root(double low, double high) {
    const auto nearer = [&](double log_alpha) {
      const double alpha = std::exp(log_alpha);
      solve_at(alpha);
      return nearer_at(alpha);
    };
    solve_at(low);
    const double at_low = nearer_at(low);
    solve_at(high);
    const double at_high = nearer_at(high);
    double best = high;
    if (at_low > 0 && at_high < 0) {
      std::uintmax_t most = 200;
      const auto found = boost::math::tools::toms748_solve(
          nearer, std::log(low), std::log(high), at_low, at_high,
          [](double a, double b) { return std::abs(b - a) <= 1e-12; }, most);
      best = std::exp(found.second);  // where the distance is at most √r
    }
    solve_at(best);
  }

  DualSummary certified() {
    const Index d = templates_.depth();
    evaluate();
    summary_.square_distance = square_distance();
    const double alpha = summary_.alpha;
    const double radius = std::sqrt(square_radius_);
    const double norm =
        std::sqrt(kernel::dot(lambda_.row(0), lambda_.row(0), d) + alpha * alpha * apart_);
    double along_gradient = 0;
    for (Index c = 0; c < d; ++c) {
      const double lambda = lambda_.row(0)[c];
      if (alpha > 0) along_gradient += lambda * (away_.row(0)[c] - lambda / alpha);
    }
    // √r‖λ‖ − ⟨λ, away⟩ without the difference of two like numbers.
    const double gap = alpha > 0 ? norm * (radius - norm / alpha) - along_gradient : 0;
    const Summed distance = divergence_.primal(p_.row(0));
    const double linear = kernel::dot(lambda_.row(0), target_.row(0), d) + alpha * apart_;
    summary_.primal = distance.value;
    summary_.dual = linear - radius * norm - partition_;
    summary_.gap = std::abs(gap);
    const double terms = distance.terms + std::abs(linear) + radius * norm + std::abs(partition_);
    constexpr double rounding = std::numeric_limits<double>::epsilon() / 2;
    const double error = std::abs(summary_.primal - summary_.dual - gap);
    summary_.certificate_error = error > 0 ? error / (rounding * terms) : 0;
    judge();
    return summary_;
  }

  void judge() {
    if (summary_.alpha == 0 || summary_.at_limit) {
      summary_.status = DualStatus::converged;
      return;
    }
    const double slack = std::max(options_.tolerance, same_distance);
    const bool near = summary_.square_distance <= square_radius_ * (1 + slack);
    const bool certain = summary_.gap <= options_.tolerance * (1 + std::abs(summary_.primal));
    if (summary_.status != DualStatus::converged || options_.gradient_tolerance.has_value() ||
        (near && certain)) {
      return;
    }
    summary_.status = is_out_of_steps() ? DualStatus::iteration_limit : DualStatus::stalled;
  }

  const Templates& templates_;
  DenseNewton& newton_;
  Divergence& divergence_;
  double square_radius_;
  const DualOptions& options_;
  DualOptions inner_;
  double apart_ = 0;
  double partition_ = 0;
  DualSummary summary_;
  OwnedMatrix<double> evidence_, target_, lambda_, mean_, away_, p_, logits_;
};

class RadiusSolver {
 public:
  RadiusSolver(const DualProblem& problem, double square_radius, const DualOptions& options,
               int threads, const DualResults& results)
      : problem_(problem),
        square_radius_(square_radius),
        options_(options),
        threads_(threads),
        results_(results),
        all_(problem.templates, threads),
        space_(all_, all_.count() < all_.depth()) {
    require_range(problem, all_);
  }

  PooledVector<DualSummary> solve() {
    const Index queries = problem_.evidence.rows;
    PooledVector<DualSummary> summaries(static_cast<std::size_t>(queries));
    PooledVector<std::unique_ptr<DenseNewton>> solvers(static_cast<std::size_t>(threads_));
    const auto solve_query = [&](Index q, int worker) {
      auto& solver = solvers[static_cast<std::size_t>(worker)];
      if (!solver) solver = std::make_unique<DenseNewton>(space_.templates());
      summaries[static_cast<std::size_t>(q)] = solve_one(*solver, q);
    };
    static_assert(std::is_trivially_copyable_v<DualSummary>);
    for_each_query(queries, threads_, solve_query, [&](Index q, const auto& visit) {
      visit(std::as_writable_bytes(std::span(&summaries[static_cast<std::size_t>(q)], 1)));
      visit_rows({results_.lambda, results_.h, results_.p}, q, visit);
    });
    return summaries;
  }

 private:
  DualSummary solve_one(DenseNewton& newton, Index q) const {
    const Index n = all_.count();
    const OwnedDivergence divergence(
        nullptr, problem_.preference.row(problem_.preference.rows == 1 ? 0 : q), n);
    const MatrixView<double> lambda = results_.lambda.row_range(q, 1);
    std::fill_n(lambda.data, all_.depth(), 0.0);
    if (divergence.is_empty()) {
      if (results_.h.rows > 0) std::fill_n(results_.h.row(q), all_.depth(), 0.0);
      if (results_.p.rows > 0) std::fill_n(results_.p.row(q), n, 0.0);
      return {};
    }
    RadiusQuery query(space_.templates(), newton, *divergence, square_radius_, options_);
    const MatrixView<const double> evidence = problem_.evidence.row_range(q, 1);
    space_.project(evidence, {query.evidence(), 1, space_.depth()});
    const OwnedMatrix<double> apart = space_.outside(evidence, query.evidence());
    const DualSummary summary = query.solve(kernel::dot(apart.row(0), apart.row(0), all_.depth()),
                                            problem_.first_query + q);
    write(query, summary.alpha, apart, q);
    return summary;
  }

  void write(const RadiusQuery& query, double alpha, const OwnedMatrix<double>& apart,
             Index q) const {
    const Index d = all_.depth();
    const MatrixView<double> lambda = results_.lambda.row_range(q, 1);
    for (Index c = 0; c < d; ++c) lambda(0, c) = alpha * apart.row(0)[c];
    space_.add_lifted(query.lambda().read(), lambda);
    if (results_.h.rows > 0) {
      std::copy_n(all_.centre().data(), d, results_.h.row(q));
      space_.add_lifted(query.mean().read(), results_.h.row_range(q, 1));
    }
    if (results_.p.rows > 0) std::copy_n(query.p().row(0), all_.count(), results_.p.row(q));
  }

  const DualProblem& problem_;
  double square_radius_;
  const DualOptions& options_;
  int threads_;
  const DualResults& results_;
  Templates all_;
  Space space_;
};

}  // namespace

PooledVector<DualSummary> solve_radius(const DualProblem& problem, double square_radius,
                                       const DualOptions& options, int threads,
                                       const DualResults& results) {
  require_shapes(problem);
  DualProblem at_one = problem;  // its α has no meaning here
  at_one.alpha = 1;
  return RadiusSolver(at_one, square_radius, options, threads, results).solve();
}

}  // namespace attn
