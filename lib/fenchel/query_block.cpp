#include "fenchel/query_block.hpp"

#include <algorithm>
#include <cmath>

#include "fenchel/certificate.hpp"
#include "fenchel/kullback_leibler.hpp"
#include "kernel/conjugate.hpp"
#include "parallel/stop_flag.hpp"

namespace attn::fenchel {
namespace {

// Steps of one kind that a query takes before another kind takes over.
constexpr Index most_block_steps = 40;
constexpr int most_slow_steps = 2;

}  // namespace

BlockSolver::BlockSolver(const BlockProblem& problem, Index most_rows)
    : problem_(problem),
      scratch_(problem.finder.scratch(most_rows)),
      search_(problem.templates.count()) {
  const Index n = problem.templates.count();
  const Index d = problem.templates.depth();
  const bool shared = problem.preference.rows == 1;
  minus_log_u_ = OwnedMatrix<double>(shared ? 1 : most_rows, n);
  u_ = OwnedMatrix<double>(shared ? 1 : most_rows, n);
  for (OwnedMatrix<double>* rows : {&lambda_, &target_, &mean_, &gradient_, &step_}) {
    *rows = OwnedMatrix<double>(most_rows, d);
  }
  for (OwnedMatrix<double>* rows : {&logits_, &p_, &along_})
    *rows = OwnedMatrix<double>(most_rows, n);
  if (problem.finder.needs_residual()) {
    for (OwnedMatrix<double>* rows : {&weights_, &residual_, &new_weights_}) {
      *rows = OwnedMatrix<double>(most_rows, n);
    }
  }
  for (auto* values : {&norms_, &forcing_, &needed_}) {
    values->resize(static_cast<std::size_t>(most_rows));
  }
}

std::int64_t BlockSolver::bytes(Index rows, Index n, Index d) {
  // Includes the float32 data of either finder.
  return rows * (12 * n + 8 * d + d * 2 + 64) * static_cast<std::int64_t>(sizeof(double));
}

const double* BlockSolver::closed(Index row) const {
  return minus_log_u_.row(minus_log_u_.rows() == 1 ? 0 : row);
}

void BlockSolver::begin(Index first, Index count) {
  const Index n = problem_.templates.count();
  const Index d = problem_.templates.depth();
  const bool shared = problem_.preference.rows == 1;
  queries_.clear();
  for (Index q = first; q < first + count; ++q) {
    const auto row = static_cast<Index>(queries_.size());
    const Index of = shared ? 0 : row;
    double* price = minus_log_u_.row(of);
    if (!shared || q == first) {
      if (!minus_log_preference(problem_.preference.row(shared ? 0 : q), n, price)) {
        std::fill_n(problem_.lambda.row(q), d, 0.0);
        problem_.summaries[static_cast<std::size_t>(q)] = DualSummary{};
        if (shared) {
          for (Index other = first; other < first + count; ++other) {
            std::fill_n(problem_.lambda.row(other), d, 0.0);
          }
          return;
        }
        continue;
      }
      for (Index i = 0; i < n; ++i) u_.row(of)[i] = std::exp(-price[i]);
    }
    Query query;
    query.index = q;
    queries_.push_back(query);
    const double* z = problem_.evidence.row(q);
    for (Index c = 0; c < d; ++c) lambda_.row(row)[c] = problem_.alpha * z[c];
  }
  const auto rows = static_cast<Index>(queries_.size());
  problem_.templates.means(u_.first(shared ? 1 : rows), target_.first(shared ? 1 : rows));
  for (Index row = rows; row-- > 0;) {
    const double* mu = target_.row(shared ? 0 : row);
    const double* z = problem_.evidence.row(queries_[static_cast<std::size_t>(row)].index);
    for (Index c = 0; c < d; ++c) target_.row(row)[c] = mu[c] + z[c];
    if (!problem_.finder.needs_residual()) continue;
    const double* u = u_.row(shared ? 0 : row);
    for (Index i = 0; i < n; ++i) weights_.row(row)[i] = -u[i];
  }
}

void BlockSolver::evaluate() {
  const auto rows = static_cast<Index>(queries_.size());
  const Index n = problem_.templates.count();
  const Index d = problem_.templates.depth();
  problem_.templates.logits(lambda_.first(rows), logits_.first(rows));
  for (Index row = 0; row < rows; ++row) {
    queries_[static_cast<std::size_t>(row)].partition =
        log_partition(logits_.row(row), closed(row), n, p_.row(row));
  }
  problem_.templates.means(p_.first(rows), mean_.first(rows));
  for (Index row = 0; row < rows; ++row) {
    const double* target = target_.row(row);
    const double* lambda = lambda_.row(row);
    double* gradient = gradient_.row(row);
    for (Index c = 0; c < d; ++c) {
      gradient[c] = target[c] - lambda[c] / problem_.alpha - mean_.row(row)[c];
    }
    norms_[static_cast<std::size_t>(row)] = std::sqrt(kernel::dot(gradient, gradient, d));
  }
}

bool BlockSolver::finish(Index row) {
  const auto at = static_cast<std::size_t>(row);
  Query& query = queries_[at];
  const Index n = problem_.templates.count();
  const Index d = problem_.templates.depth();
  const double alpha = problem_.alpha;
  const double* lambda = lambda_.row(row);
  const double norm = norms_[at];
  const double gap = alpha / 2 * norm * norm;
  const double square = kernel::dot(lambda, lambda, d);
  const double primal =
      gap + kernel::dot(lambda, target_.row(row), d) - square / (2 * alpha) - query.partition;
  const double lambda_norm = std::sqrt(square);
  const DualStopping::Place place{
      norm, primal, lambda_norm,
      gradient_rounding(problem_.templates, target_.row(row), lambda_norm)};
  const auto verdict = query.stopping.look(problem_.options, alpha, place, query.whole_step);
  needed_[at] = DualStopping::needed(problem_.options, alpha, place);
  const bool done = verdict == DualStopping::Verdict::done;
  const bool last = query.summary.iterations == problem_.options.max_iterations;
  const bool slow = verdict == DualStopping::Verdict::stuck ||
                    query.summary.iterations >= most_block_steps ||
                    query.slow_steps >= most_slow_steps;
  if (!done && !last && !slow) return false;

  const auto q = static_cast<std::size_t>(query.index);
  query.summary.status = done ? DualStatus::converged : DualStatus::iteration_limit;
  query.summary.gradient_norm = norm;
  query.summary.gap = gap;
  if (!done) {
    query.summary.convergence = query.stopping.convergence(needed_[at], query.summary.iterations);
  }
  problem_.left[q] = done || last ? 0 : 1;
  std::copy_n(lambda, d, problem_.lambda.row(query.index));
  std::copy_n(mean_.row(row), d, problem_.mean.row(query.index));
  if (problem_.p.rows > 0) std::copy_n(p_.row(row), n, problem_.p.row(query.index));
  KullbackLeibler divergence(closed(row), n);
  if (done || last) {
    certify({lambda, target_.row(row), mean_.row(row), p_.row(row), d}, query.partition, alpha,
            divergence, query.summary);
  }
  problem_.summaries[q] = query.summary;
  return true;
}

void BlockSolver::keep(Index from, Index to) {
  if (from == to) return;
  queries_[static_cast<std::size_t>(to)] = queries_[static_cast<std::size_t>(from)];
  for (auto* values : {&norms_, &needed_}) {
    (*values)[static_cast<std::size_t>(to)] = (*values)[static_cast<std::size_t>(from)];
  }
  const auto move = [&](const OwnedMatrix<double>& rows) {
    if (rows.rows() > 1) std::copy_n(rows.row(from), rows.cols(), rows.row(to));
  };
  for (const OwnedMatrix<double>* rows :
       {&lambda_, &target_, &mean_, &gradient_, &logits_, &p_, &minus_log_u_, &weights_}) {
    move(*rows);
  }
}

void BlockSolver::choose_forcing() {
  // Even with an exact solution of Newton's equations, a whole step leaves the terms that they
  // neglect. Relative to the gradient, these are at most about half of how far the step moves
  // logits apart, α‖gradient‖ max‖t‖. Most of this cancels. In measurements 1/32 was fastest: 1/16
  // costs more steps, less saves none.
  const double neglected = problem_.alpha * problem_.templates.largest_norm() / 32;
  for (std::size_t row = 0; row < queries_.size(); ++row) {
    Query& query = queries_[row];
    // A poorer solution costs another step, and a better one is wasted. After a whole step, the
    // norms give a second estimate (Eisenstat and Walker 1996, choice 2). The accuracy never
    // exceeds the requirement or float32.
    const double ratio = query.gradient_before > 0 ? norms_[row] / query.gradient_before : 1;
    const double wanted = std::min(query.whole_step ? ratio * ratio : 1, neglected * norms_[row]);
    const double enough = 0.3 * needed_[row] / norms_[row];
    forcing_[row] = std::clamp(std::max(wanted, enough), 1e-5, 0.1);
    query.gradient_before = norms_[row];
  }
}

void BlockSolver::step() {
  const auto rows = static_cast<Index>(queries_.size());
  const Index n = problem_.templates.count();
  const Index d = problem_.templates.depth();
  choose_forcing();
  slow_.assign(queries_.size(), 0);
  if (problem_.finder.needs_residual()) {
    for (Index row = 0; row < rows; ++row) {
      std::copy_n(weights_.row(row), n, residual_.row(row));
      kernel::axpy(residual_.row(row), p_.row(row), n, 1);
    }
  }
  problem_.finder.find({p_.first(rows), mean_.first(rows), gradient_.first(rows),
                        residual_.first(rows), norms_.data(), forcing_.data()},
                       {step_.first(rows), along_.first(rows), new_weights_.first(rows), slow_},
                       *scratch_);
  for (Index row = 0; row < rows; ++row) {
    Query& query = queries_[static_cast<std::size_t>(row)];
    KullbackLeibler divergence(closed(row), n);
    double* along = along_.row(row);
    query.whole_step = DualSearch::is_safe(divergence, along, n);
    const double t = query.whole_step
                         ? 1
                         : search_.step(divergence, {query.partition, logits_.row(row), along, n},
                                        {lambda_.row(row), target_.row(row), gradient_.row(row),
                                         step_.row(row), d},
                                        problem_.alpha);
    kernel::axpy(lambda_.row(row), step_.row(row), d, t);
    if (problem_.finder.needs_residual()) {
      kernel::axpy(weights_.row(row), new_weights_.row(row), n, t);
    }
    query.slow_steps += slow_[static_cast<std::size_t>(row)];
    ++query.summary.iterations;
  }
}

void BlockSolver::solve(Index first, Index count) {
  begin(first, count);
  while (!queries_.empty()) {
    stop_if_asked();
    evaluate();
    Index kept = 0;
    for (Index row = 0; row < static_cast<Index>(queries_.size()); ++row) {
      if (!finish(row)) keep(row, kept++);
    }
    queries_.resize(static_cast<std::size_t>(kept));
    if (kept > 0) step();
  }
}

}  // namespace attn::fenchel
