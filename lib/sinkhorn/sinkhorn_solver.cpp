#include "sinkhorn/sinkhorn_solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "feasibility/tree_gap.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "sinkhorn/plan_summary.hpp"
#include "sinkhorn/plan_sums.hpp"
#include "sinkhorn/relaxation.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "sinkhorn/tempered_energy.hpp"
#include "sinkhorn/watched_solution.hpp"
#include "tensor/infinity.hpp"
#include "tensor/number_text.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// ε is divided by `cooling` at a time, starting where scores are about `first_scores` in size.
constexpr double cooling = 4;
constexpr double first_scores = 16;
constexpr double rough_error = 1e-2;  // of the total
constexpr Index most_rough_iterations = 200;

// How often a plan with visible rounding is iterated further.
constexpr int most_closer = 3;

// The difference between the totals of a plan's row and column sums in this format, due to the
// order of additions.
template <class T>
constexpr double sum_rounding = sizeof(T) == sizeof(float) ? 1e-6 : 1e-12;

bool all_one(const PooledVector<double>& marginal, const PooledVector<Index>& partners) {
  for (std::size_t n = 0; n < marginal.size(); ++n) {
    if (marginal[n] != (partners[n] > 0 ? 1 : 0)) return false;
  }
  return true;
}

PooledVector<double> logs(const PooledVector<double>& marginal) {
  PooledVector<double> values;
  values.reserve(marginal.size());
  for (const double x : marginal) values.push_back(std::log(x));
  return values;
}

template <class T>
class SinkhornSolver {
 public:
  SinkhornSolver(const Scores<T>& scores, const Marginals& marginals,
                 const SinkhornOptions& options, const ObserverList<T>& observers, int threads,
                 SinkhornProgress* progress, std::span<const double> start)
      : scores_(scores),
        marginals_(marginals),
        options_(options),
        observers_(observers),
        threads_(threads),
        start_(start),
        solution_(progress, options.keeps_errors ? &found_.errors : nullptr),
        allowed_(scores.allowed_counts()),
        tolerance_(tolerance_in_force(options.stopping, marginals, sizeof(T))) {
    found_.potentials.row.assign(static_cast<std::size_t>(scores.rows()), 0.0);
    found_.potentials.col.assign(static_cast<std::size_t>(scores.cols()), 0.0);
  }

  SinkhornSolution solve() {
    require_room<T>(marginals_.total(), "the marginals add up to");
    if (const SinkhornState* const from = solution_.start()) {
      now_.iterations = from->iterations;
      now_.last_error = from->last_error;
      found_.errors = from->errors;
    }
    solution_.run([&] { find(); });
    found_.summary.iterations = now_.iterations;
    return std::move(found_);
  }

 private:
  std::span<double> row() { return found_.potentials.row; }
  std::span<double> col() { return found_.potentials.col; }

  void find() {
    if (is_dnas()) {
      first_iteration(scores_, allowed_, row(), col(), observers_, threads_);
      record(measure());
    } else {
      iterate();
      if (!observers_.empty()) show_weights(scores_, found_.potentials, 0, observers_, threads_);
    }
    // The trees take a few more passes, which could cost more than a fixed number of iterations.
    if (tolerance_ && !row_missing_.empty()) {
      found_.summary.gap = tree_gap(scores_, found_.potentials, marginals_.row, marginals_.col,
                                    row_missing_, col_missing_, sum_rounding<T>, threads_);
    }
  }

  void record(double error) {
    now_.last_error = error;
    now_.fall.add(error);
    ++now_.iterations;
    if (options_.keeps_errors) found_.errors.push_back(error);
  }
  // Drops the latest record: the next run makes it again.
  void forget_last() {
    --now_.iterations;
    if (options_.keeps_errors) found_.errors.pop_back();
  }

  bool is_dnas() const {
    return !tolerance_ && options_.stopping.iterations == 1 && !marginals_.penalties &&
           start_.empty() && !marginals_.symmetric &&
           all_one(marginals_.row, allowed_.keys_of_query) &&
           all_one(marginals_.col, allowed_.queries_of_key);
  }

  void iterate() {
    const PooledVector<double> log_a = logs(marginals_.row);
    const PooledVector<double> log_b = logs(marginals_.col);
    const LogMarginals log_marginals{log_a, log_b, marginals_.penalties};
    const bool warm = options_.anneals && tolerance_ && anneal(log_marginals);
    SinkhornIteration<T> iteration(scores_, log_marginals, options_.tuning.kept_bytes, threads_);
    if (!warm && solution_.start() == nullptr) start(iteration);
    now_.temperature = 1;
    now_.closer = 0;
    now_.aim = tolerance_.value_or(0);
    if (const SinkhornState* const from = solution_.start()) {
      now_.closer = from->closer;
      now_.aim = from->aim;
    }
    for (;;) {
      const std::optional<double> aim = tolerance_ ? std::optional(now_.aim) : std::nullopt;
      run(iteration, aim, options_.stopping.most_iterations());
      const double error = measure();
      if (!tolerance_) return;
      found_.summary.status =
          error <= *tolerance_ ? SolveStatus::converged : SolveStatus::not_converged;
      if (error <= *tolerance_) return;
      // The errors known to the iterations leave out the rounding of the plan.
      if (now_.closer == most_closer || !(now_.last_error <= now_.aim)) break;
      const double nearer = (*tolerance_ - (error - now_.last_error)) / 2;
      if (!(nearer > 0)) break;
      now_.aim = nearer;
      ++now_.closer;
      forget_last();
    }
    found_.summary.convergence = now_.fall.toward(*tolerance_, now_.iterations);
  }

  void start(SinkhornIteration<T>& iteration) {
    if (!marginals_.symmetric) {
      iteration.start(col());
      return take_given_start();
    }
    for (std::size_t j = 0; j < col().size(); ++j) {
      col()[j] = marginals_.col[j] > 0 ? 0 : minus_infinity;
    }
  }

  // Columns that are closed stay so.
  void take_given_start() {
    const double shift = start_.empty() ? 0 : shift_of_start();
    std::size_t farthest = 0;
    double distance = 0;
    for (std::size_t j = 0; j < start_.size(); ++j) {
      double& g = col()[j];
      if (g == minus_infinity) continue;
      g = start_[j] - shift;
      if (std::abs(g) <= distance) continue;
      farthest = j;
      distance = std::abs(g);
    }
    if (distance <= 0x1p30) return;
    throw Error(Failure::input,
                "the potential of column " + std::to_string(farthest) + " to start from is " +
                    number_text(start_[farthest]) + ", expected a number within 2^30" +
                    (shift == 0 ? "" : " of the mean") + ", as the column has mass");
  }

  // With exact sums, g is unique up to a constant. A large one would add rounding to the plan.
  double shift_of_start() {
    if (marginals_.penalties) return 0;
    double mean = 0, count = 0;
    for (std::size_t j = 0; j < start_.size(); ++j) {
      if (col()[j] == minus_infinity || !std::isfinite(start_[j])) continue;
      mean += (start_[j] - mean) / ++count;
    }
    return std::abs(mean) > 0x1p16 ? mean : 0;
  }

  // Runs until the error is at most `tolerance`, if there is one, or `most` errors are recorded.
  // The first run of a resumed solution begins with its state.
  void run(SinkhornIteration<T>& iteration, std::optional<double> tolerance, Index most) {
    now_.relaxation = {};
    now_.relaxation.wanted = options_.relaxation;
    now_.fall.restart();
    now_.most = most;
    const SinkhornState* const from = solution_.take_start();
    if (from != nullptr) {
      now_.relaxation = from->relaxation;
      now_.fall = from->fall;
      now_.most = from->most;
    }
    const auto callback = [&](const MarginalErrors& errors) -> std::optional<double> {
      const double error = errors.row + errors.col;
      record(error);
      if (tolerance && error <= *tolerance) return std::nullopt;
      if (now_.iterations >= now_.most) return std::nullopt;
      return next_relaxation(error, now_.relaxation);
    };
    if (marginals_.symmetric) {
      iteration.iterate_symmetric(col(), callback);
      std::copy(col().begin(), col().end(), row().begin());
      return;
    }
    iteration.iterate(col(), row(), callback, solution_.watch(),
                      from == nullptr ? nullptr : &from->iteration);
  }

  // Leaves the g to start from. False if scores are small already, or of unknown size.
  bool anneal(const LogMarginals& log_marginals) {
    LogMarginals warmer_marginals = log_marginals;
    const double largest = scores_.magnitude();
    if (!(largest > first_scores * cooling) || std::isinf(largest)) return false;
    double temperature = 1;
    while (temperature * largest > first_scores) temperature /= cooling;
    if (solution_.start() != nullptr) temperature = solution_.start()->temperature;
    const double rough = std::max(*tolerance_, rough_error * marginals_.total());
    bool started = solution_.start() != nullptr;
    for (; temperature < 1; temperature *= cooling) {
      const Index most = std::min(now_.iterations + most_rough_iterations,
                                  options_.stopping.most_iterations() - 1);
      if (solution_.start() == nullptr && now_.iterations >= most) break;
      now_.temperature = temperature;
      const TemperedEnergy<T> energy(scores_, temperature);
      typename Scores<T>::Terms terms;
      terms.energy = &energy;
      const Scores<T> warmer(terms);
      if (marginals_.penalties) {
        warmer_marginals.penalties = {marginals_.penalties->row * temperature,
                                      marginals_.penalties->col * temperature};
      }
      SinkhornIteration<T> iteration(warmer, warmer_marginals, options_.tuning.kept_bytes,
                                     threads_);
      if (!started) start(iteration);
      started = true;
      run(iteration, rough, most);
      for (double& g : col()) g *= cooling;
    }
    return started;
  }

  // Evaluates the plan; returns its error.
  double measure() {
    PlanSums<T> sums(scores_);
    show_weights<T>(scores_, found_.potentials, 0, {&sums}, threads_);
    evaluate(sums);
    return found_.summary.row_error + found_.summary.col_error;
  }

  void evaluate(const PlanSums<T>& sums) {
    SinkhornSummary& summary = found_.summary;
    if (marginals_.penalties) return evaluate_softly(sums);
    const double size = all_allowed() ? scores_.magnitude() : infinity;
    summary = plan_summary(sums, marginals_, found_.potentials, size);
    if (std::isinf(size) && totals_agree(marginals_)) keep_missing(sums.rows(), sums.cols());
  }

  // The sums of the soft side once each line of the exact side is scaled to its marginal.
  PooledVector<double> scaled_sums(const PlanSums<T>& sums, bool rows_exact) {
    Potentials scaled = found_.potentials;
    PooledVector<double>& potential = rows_exact ? scaled.row : scaled.col;
    const PooledVector<double>& marginal = rows_exact ? marginals_.row : marginals_.col;
    const PooledVector<double>& sum = rows_exact ? sums.rows() : sums.cols();
    for (std::size_t n = 0; n < sum.size(); ++n) {
      if (sum[n] > 0) potential[n] += std::log(sum[n] / marginal[n]);
    }
    PlanSums<T> found(scores_);
    show_weights<T>(scores_, scaled, 0, {&found}, threads_);
    return rows_exact ? found.cols() : found.rows();
  }

  // Primal and dual differ by Σ KL(sums of the plan ‖ sums that its potentials imply). If one side
  // is exact, the plan of the primal is scaled to its marginals, and differs by Σ KL(a ‖ r) there.
  void evaluate_softly(const PlanSums<T>& sums) {
    SinkhornSummary& summary = found_.summary;
    summary = {};
    summary.score = sums.score();
    summary.mass = std::accumulate(sums.rows().begin(), sums.rows().end(), 0.0);
    require_room<T>(summary.mass, "the plan's sum is");
    summary.dual = -summary.mass;
    summary.gap = 0;
    const auto add_exact = [&](double sum, double marginal, double potential) {
      summary.gap += kl_term(marginal, sum);
      if (marginal > 0 && potential != minus_infinity) summary.dual -= marginal * potential;
      return std::abs(sum - marginal);
    };
    const auto add_soft = [&](double sum, double shown, double marginal, double potential,
                              double penalty) {
      const double wanted = soft_sum(std::log(marginal), potential, penalty);
      summary.gap += penalty * kl_term(shown, wanted);
      summary.dual -= penalty * (wanted - marginal);
      return std::abs(sum - wanted);
    };
    const bool rows_exact = std::isinf(marginals_.penalties->row);
    const bool cols_exact = std::isinf(marginals_.penalties->col);
    const PooledVector<double> scaled =
        rows_exact || cols_exact ? scaled_sums(sums, rows_exact) : PooledVector<double>();
    const auto add_side = [&](std::span<const double> sum, std::span<const double> marginal,
                              std::span<const double> potential, double penalty) {
      const std::span<const double> shown = scaled.empty() ? sum : std::span(scaled);
      double error = 0;
      for (std::size_t n = 0; n < sum.size(); ++n) {
        error += std::isinf(penalty)
                     ? add_exact(sum[n], marginal[n], potential[n])
                     : add_soft(sum[n], shown[n], marginal[n], potential[n], penalty);
      }
      return error;
    };
    summary.row_error = add_side(sums.rows(), marginals_.row, row(), marginals_.penalties->row);
    summary.col_error = add_side(sums.cols(), marginals_.col, col(), marginals_.penalties->col);
    if (!std::isfinite(summary.gap)) summary.gap = std::numeric_limits<double>::quiet_NaN();
    summary.primal = summary.dual + summary.gap;
  }

  void keep_missing(const PooledVector<double>& r, const PooledVector<double>& c) {
    row_missing_ = marginals_.row;
    col_missing_ = marginals_.col;
    for (std::size_t i = 0; i < r.size(); ++i) row_missing_[i] -= r[i];
    for (std::size_t j = 0; j < c.size(); ++j) col_missing_[j] -= c[j];
  }

  // Whether every row with a marginal may go to every column with one.
  bool all_allowed() const {
    const Index keys = static_cast<Index>(allowed_.queries_of_key.size()) - allowed_.empty_keys();
    for (std::size_t i = 0; i < marginals_.row.size(); ++i) {
      if (marginals_.row[i] > 0 && allowed_.keys_of_query[i] < keys) return false;
    }
    for (std::size_t j = 0; j < marginals_.col.size(); ++j) {
      if (marginals_.col[j] > 0 && allowed_.queries_of_key[j] == 0) return false;
    }
    return true;
  }

  const Scores<T>& scores_;
  const Marginals& marginals_;
  const SinkhornOptions& options_;
  const ObserverList<T>& observers_;
  int threads_;
  std::span<const double> start_;
  SinkhornSolution found_;
  WatchedSolution solution_;
  SinkhornState& now_ = solution_.now;
  AllowedCounts allowed_;
  std::optional<double> tolerance_;
  PooledVector<double> row_missing_;  // of the latest plan, if the gap is found by trees
  PooledVector<double> col_missing_;
};

}  // namespace

template <class T>
SinkhornSolution solve_sinkhorn(const Scores<T>& scores, const Marginals& marginals,
                                const SinkhornOptions& options, const ObserverList<T>& observers,
                                int threads, SinkhornProgress* progress,
                                std::span<const double> start) {
  return SinkhornSolver<T>(scores, marginals, options, observers, threads, progress, start).solve();
}

std::optional<double> tolerance_in_force(const Stopping& stopping, double total,
                                         std::size_t element_size) {
  if (stopping.tolerance) return stopping.tolerance;
  if (stopping.iterations) return std::nullopt;
  // Shares add up to 1 but for rounding.
  const double size = std::abs(total - 1) < 1e-6 ? 1 : total;
  // The rounding of a plan in float32 limits its sums, in proportion to their total.
  return usual_tolerance(element_size) *
         (element_size == sizeof(float) ? size : std::min(1.0, size));
}

std::optional<double> tolerance_in_force(const Stopping& stopping, const Marginals& marginals,
                                         std::size_t element_size) {
  const double total = marginals.total();
  const std::optional<double> usual = tolerance_in_force(stopping, total, element_size);
  if (stopping.tolerance || !usual || !marginals.penalties) return usual;
  const double a = std::accumulate(marginals.row.begin(), marginals.row.end(), 0.0);
  const double b = std::accumulate(marginals.col.begin(), marginals.col.end(), 0.0);
  if (!(a > 0 && b > 0)) return usual;
  const double largest = joint_penalty(*marginals.penalties) * std::abs(std::log(a / b));
  const double rounding = 4 * 0x1p-53 * largest * total;
  return std::max(*usual, std::min(rounding, usual_tolerance(sizeof(float)) * total));
}

double solution_error(const SinkhornSummary& summary, std::optional<double> usual) {
  const double error = summary.row_error + summary.col_error;
  const bool solved = summary.status == SolveStatus::converged || (usual && error <= *usual);
  return solved ? 0 : error;
}

std::int64_t useful_sinkhorn_bytes(const SinkhornOptions& options, Index rows, Index cols,
                                   std::size_t element_size, const RankRows& ranks) {
  if (options.stopping.most_iterations() == 1) return 0;
  return kept_kernel_bytes(rows, cols, element_size, ranks);
}

std::int64_t sinkhorn_solver_bytes(Index rows, Index cols, std::size_t element_size, int threads) {
  const std::int64_t iterations = sinkhorn_bytes(rows, cols, element_size, threads);
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  // With one exact side, the potentials and sums of the scaled plan.
  const std::int64_t scaled = PlanSums<double>::bytes(partition, 0) +
                              (rows + cols) * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t shown = pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
                             PlanSums<double>::bytes(partition, threads) +
                             std::max(tree_gap_bytes(partition), scaled) +
                             cols * static_cast<std::int64_t>(element_size);
  // Potentials, marginals and their logarithms; counts of allowed pairs.
  return std::max(iterations, shown) +
         4 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

template SinkhornSolution solve_sinkhorn(const Scores<float>&, const Marginals&,
                                         const SinkhornOptions&, const ObserverList<float>&, int,
                                         SinkhornProgress*, std::span<const double>);
template SinkhornSolution solve_sinkhorn(const Scores<double>&, const Marginals&,
                                         const SinkhornOptions&, const ObserverList<double>&, int,
                                         SinkhornProgress*, std::span<const double>);

}  // namespace attn
