#include "sinkhorn/attention_iterations.hpp"

#include <cmath>
#include <optional>

#include "parallel/kept_state.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "tensor/error_fall.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Σ_j |c_j − b_j| / Σ_j b_j over the open columns, which all have the same b.
double relative_change(const PooledVector<double>& g, const PooledVector<double>& next) {
  double error = 0;
  double columns = 0;
  for (std::size_t j = 0; j < g.size(); ++j) {
    if (std::isinf(g[j])) continue;
    error += std::abs(std::expm1(next[j] - g[j]));
    columns += 1;
  }
  return columns > 0 ? error / columns : 0;
}

// The half-steps of dnas; the same to the last bit if the marginal is 1.
template <class T>
void iterate_once(const Scores<T>& scores, const AllowedCounts& allowed, double log_b,
                  Potentials& potentials, const ObserverList<T>& observers, int threads) {
  PooledVector<double>& row = potentials.row;
  PooledVector<double>& col = potentials.col;
  if (all_by_row(observers)) {
    first_iteration<T>(scores, allowed, row, col, observers, threads);
    // Changes the marginal of the columns from 1 to b. The weights stay the same.
    for (double& g : col) g -= log_b;
    for (double& f : row) f += log_b;
  } else {
    first_columns<T>(scores, col, threads);
    for (double& g : col) g -= log_b;
    rows_from_columns<T>(scores, row, col, observers, threads);
  }
}

// The state of the iterations.
template <class T>
class KeptIterations {
 public:
  KeptIterations(SinkhornIteration<T>& iteration, Potentials& potentials, StateKeeper* keeper)
      : iteration_(iteration),
        potentials_(potentials),
        state_(keeper, [this](const auto& visit) { visit_state(visit); }) {}

  Index done = 0;
  ErrorFall fall;

  // The first g: the kept one, or the start.
  void begin() {
    if (!state_.take()) return iteration_.start(potentials_.col);
    reference_.refers_to_zero = mark_ == Mark::zero;
    if (mark_ == Mark::none) reference_.row_reference = reference_.col_reference = {};
    iteration_.set_reference(reference_);
  }

  void iteration_begins() {
    if (!state_.is_kept()) return;
    reference_ = iteration_.reference();
    mark_ = reference_.refers_to_zero          ? Mark::zero
            : reference_.col_reference.empty() ? Mark::none
                                               : Mark::plan;
    state_.step_begins();
  }

  template <class Body>
  void run(const Body& iterate) {
    state_.run(iterate);
  }

 private:
  enum class Mark { zero, none, plan };

  // Visits as many bytes for every state of a head.
  void visit_state(const KeptState::Visit& visit) {
    const auto number = [&](auto& value) { visit(std::as_writable_bytes(std::span(&value, 1))); };
    number(done);
    number(fall);
    number(mark_);
    reference_.row_reference.resize(potentials_.row.size());
    reference_.col_reference.resize(potentials_.col.size());
    for (auto* const values :
         {&reference_.row_reference, &reference_.col_reference, &potentials_.col}) {
      visit(std::as_writable_bytes(std::span(*values)));
    }
  }

  SinkhornIteration<T>& iteration_;
  Potentials& potentials_;
  KeptState state_;
  IterationState reference_;
  Mark mark_ = Mark::zero;
};

// The next g follows from the column sums of the present plan: only the last check costs an extra
// half-step.
template <class T>
SchemeSummary iterate_until(SinkhornIteration<T>& iteration, double tolerance, Index most,
                            Potentials& potentials, KeptIterations<T>& kept) {
  PooledVector<double> next(potentials.col.size());
  SchemeSummary summary;
  summary.status = SolveStatus::not_converged;
  summary.iterations += kept.done;
  for (;; ++summary.iterations) {
    kept.iteration_begins();
    iteration.step(potentials.col, potentials.row, next);
    summary.column_error = relative_change(potentials.col, next);
    if (summary.column_error <= tolerance) {
      summary.status = SolveStatus::converged;
      break;
    }
    kept.fall.add(summary.column_error);
    if (summary.iterations == most) {
      summary.convergence = kept.fall.toward(tolerance, summary.iterations);
      break;
    }
    potentials.col.swap(next);
    ++kept.done;
  }
  return summary;
}

// Runs all iterations; of a fixed number, all but the last, which shows the weights.
template <class T>
SchemeSummary iterate(SinkhornIteration<T>& iteration, const Stopping& stopping,
                      StateKeeper* keeper, Potentials& potentials) {
  SchemeSummary summary;
  KeptIterations<T> kept(iteration, potentials, keeper);
  kept.begin();
  kept.run([&] {
    if (!stopping.fixed()) {
      summary = iterate_until(iteration, stopping.tolerance.value_or(usual_tolerance(sizeof(T))),
                              stopping.most_iterations(), potentials, kept);
      return;
    }
    PooledVector<double> next(potentials.col.size());
    for (; kept.done + 1 < *stopping.iterations; ++kept.done) {
      kept.iteration_begins();
      iteration.step(potentials.col, potentials.row, next);
      potentials.col.swap(next);
    }
    // The steps after the iterations may be stopped, too.
    kept.iteration_begins();
    summary.iterations = *stopping.iterations;
  });
  return summary;
}

}  // namespace

template <class T>
SchemeSummary iterate_attention(const Scores<T>& scores, const AllowedCounts& allowed,
                                const Stopping& stopping, std::int64_t kept_bytes,
                                StateKeeper* keeper, Potentials& potentials,
                                const ObserverList<T>& observers, int threads) {
  // Keys without a query need no marginal of their own: their column sum is 0, which closes them.
  const double log_b = log_column_marginal(allowed);
  if (stopping.once()) {
    iterate_once(scores, allowed, log_b, potentials, observers, threads);
    return {};
  }
  const PooledVector<double> log_marginal(static_cast<std::size_t>(scores.cols()), log_b);
  SinkhornIteration<T> iteration(scores, {{}, log_marginal}, kept_bytes, threads);
  const SchemeSummary summary = iterate(iteration, stopping, keeper, potentials);
  if (stopping.fixed()) {
    iteration.show(potentials.col, potentials.row, observers);
    return summary;
  }
  if (!observers.empty()) show_weights(scores, potentials, 0, observers, threads);
  return summary;
}

std::int64_t iteration_state_bytes(Index rows, Index cols) {
  constexpr std::int64_t few_numbers = 1024;
  return (rows + 2 * cols) * static_cast<std::int64_t>(sizeof(double)) + few_numbers;
}

template SchemeSummary iterate_attention(const Scores<float>&, const AllowedCounts&,
                                         const Stopping&, std::int64_t, StateKeeper*, Potentials&,
                                         const ObserverList<float>&, int);
template SchemeSummary iterate_attention(const Scores<double>&, const AllowedCounts&,
                                         const Stopping&, std::int64_t, StateKeeper*, Potentials&,
                                         const ObserverList<double>&, int);

}  // namespace attn
