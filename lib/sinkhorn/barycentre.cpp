#include "sinkhorn/barycentre.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "attnkit/error.hpp"
#include "feasibility/feasibility.hpp"
#include "pass/potentials.hpp"
#include "sinkhorn/c_transform.hpp"
#include "sinkhorn/iteration_range.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/plan_summary.hpp"
#include "sinkhorn/plan_sums.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/watched_solution.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// How often plans with visible rounding are iterated further.
constexpr int most_nearer = 3;

template <class T>
class BarycentreSolver {
 public:
  BarycentreSolver(const Scores<T>& scores, const Histograms& histograms,
                   const BarycentreOptions& options, int threads, SinkhornProgress* progress)
      : scores_(scores),
        histograms_(histograms),
        options_(options),
        threads_(threads),
        solution_(progress, options.keeps_errors ? &found_.errors : nullptr),
        watch_(solution_.watch()),
        kernel_(scores, options.tuning.kept_bytes),
        rows_(scores.rows()),
        cols_(scores.cols()) {
    const auto first = part_of(histograms.masses, 0, cols_);
    total_ = std::accumulate(first.begin(), first.end(), 0.0);
    tolerance_ = tolerance_in_force(options.stopping, total_, sizeof(T));
    for (const double mass : histograms.masses) log_masses_.push_back(std::log(mass));
    found_.masses.resize(static_cast<std::size_t>(rows_));
    found_.row.resize(static_cast<std::size_t>(histograms.count * rows_));
    found_.col.resize(static_cast<std::size_t>(histograms.count * cols_));
    next_.resize(found_.col.size());
    if (kernel_.refers_to_zero()) passes_.emplace(kernel_, threads);
  }

  Barycentre solve() {
    require_room<T>(total_, "the histograms add up to");
    size_ = largest_score();
    solution_.run([&] { iterate(); });
    found_.summary.iterations = now_.iterations;
    return std::move(found_);
  }

 private:
  // The largest magnitude over all rows and the columns with mass.
  double largest_score() const {
    const PooledVector<double> open_rows(static_cast<std::size_t>(rows_), 1.0);
    PooledVector<double> open_cols(static_cast<std::size_t>(cols_));
    for (Index k = 0; k < histograms_.count; ++k) {
      const auto masses = part_of(histograms_.masses, k, cols_);
      for (std::size_t j = 0; j < masses.size(); ++j) open_cols[j] += masses[j];
    }
    const ScoreRange range = score_range(scores_, open_rows, open_cols, threads_);
    if (range.least > range.largest) return 0;
    if (range.least == minus_infinity) {
      throw Error(Failure::input, "a barycentre requires a finite cost of every pair");
    }
    return std::max(std::abs(range.least), std::abs(range.largest));
  }

  void iterate() {
    if (const SinkhornState* const from = solution_.take_start()) {
      now_ = *from;
      found_.col = std::exchange(now_.iteration.col, {});
      found_.errors = std::exchange(now_.errors, {});
    } else {
      for (Index k = 0; k < histograms_.count; ++k) complete_columns(k, found_.col);
      now_.aim = tolerance_.value_or(0);
    }
    for (;;) {
      run();
      const double error = measure();
      if (!tolerance_) return;
      found_.summary.status =
          error <= *tolerance_ ? SolveStatus::converged : SolveStatus::not_converged;
      if (error <= *tolerance_) return;
      // The errors known to the iterations leave out the rounding of the plans.
      const double nearer = (*tolerance_ - (error - now_.last_error)) / 2;
      if (now_.closer == most_nearer || !(now_.last_error <= now_.aim) || !(nearer > 0) ||
          now_.iterations >= options_.stopping.most_iterations()) {
        break;
      }
      now_.aim = nearer;
      ++now_.closer;
      std::swap(found_.col, next_);
    }
    found_.summary.convergence = now_.fall.toward(*tolerance_, now_.iterations);
  }

  // Iterates until the error is at most `aim`, if there is a tolerance, or the iterations are used
  // up. Each iteration begins with g alone, so a stop needs to keep no other potentials.
  void run() {
    for (;;) {
      if (watch_) watch_(state());
      complete_rows();
      for (Index k = 0; k < histograms_.count; ++k) complete_columns(k, next_);
      const double error = error_of_plans();
      now_.last_error = error;
      now_.fall.add(error);
      ++now_.iterations;
      if (options_.keeps_errors) found_.errors.push_back(error);
      if (tolerance_ && error <= now_.aim) return;
      if (now_.iterations >= options_.stopping.most_iterations()) return;
      std::swap(found_.col, next_);
    }
  }

  IterationState state() const {
    IterationState state;
    state.col = found_.col;
    return state;
  }

  // f and p from g.
  void complete_rows() {
    PooledVector<double> log_p(static_cast<std::size_t>(rows_));
    for (Index k = 0; k < histograms_.count; ++k) {
      const auto row = part_of(found_.row, k, rows_);
      if (!multiply_rows(k)) {
        Pass<T> pass;
        pass.scores = &scores_;
        pass.completes = Completes::rows;
        pass.components = {Component{1, row, part_of(found_.col, k, cols_)}};
        attn::run(pass, threads_);
      }
      const double weight = weight_of(k);
      for (std::size_t i = 0; weight > 0 && i < row.size(); ++i) log_p[i] += weight * row[i];
    }
    // Histograms without mass leave every row at −inf; there is nothing to subtract.
    for (std::size_t n = 0; n < found_.row.size(); ++n) {
      const double log = log_p[n % log_p.size()];
      if (!std::isinf(log)) found_.row[n] -= log;
    }
    set_masses(log_p);
  }

  // Sets p and scales it: its sum is below the histograms' sum while the plans differ in their row
  // sums. If plans are far apart, all of p would otherwise underflow.
  void set_masses(const PooledVector<double>& log_p) {
    const double largest = *std::max_element(log_p.begin(), log_p.end());
    lacking_ = 0;
    std::fill(found_.masses.begin(), found_.masses.end(), 0.0);
    if (std::isinf(largest)) return;
    double sum = 0;
    for (const double log : log_p) sum += std::exp(log - largest);
    for (std::size_t i = 0; i < log_p.size(); ++i) {
      found_.masses[i] = total_ * (std::exp(log_p[i] - largest) / sum);
    }
    lacking_ = std::abs(total_ - std::exp(largest + std::log(sum)));
  }

  // exp(−potential), 0 for a closed line; empty if one is out of range.
  static PooledVector<double> factors(std::span<const double> potential) {
    PooledVector<double> found;
    for (const double value : potential) {
      const bool closed = value == minus_infinity;
      if (!closed && !(std::abs(value) <= most_from_reference<T>(true))) return {};
      found.push_back(closed ? 0 : std::exp(-value));
    }
    return found;
  }

  // Takes the logarithms of sums; false if one is out of range, as a sum without terms is.
  static bool take_logs(std::span<double> sums) {
    const double most = std::exp(most_from_reference<T>(true));
    for (double& sum : sums) {
      if (!(sum <= most && sum * most >= 1)) return false;
      sum = std::log(sum);
    }
    return true;
  }

  // log Σ_j exp(s_ij) exp(−g_kj) by a product.
  bool multiply_rows(Index k) {
    const PooledVector<double> factor =
        passes_ ? factors(part_of(found_.col, k, cols_)) : PooledVector<double>();
    if (factor.empty()) return false;
    PooledVector<double> unused(static_cast<std::size_t>(cols_));
    ScalingPass pass;
    pass.col_scale = factor;
    pass.row_sum = part_of(found_.row, k, rows_);
    pass.col_sum = unused;
    passes_->run(pass);
    return take_logs(pass.row_sum);
  }

  // log Σ_i exp(s_ij) exp(−f_ki) − log a_kj.
  bool multiply_columns(Index k, PooledVector<double>& to) {
    const PooledVector<double> factor =
        passes_ ? factors(part_of(found_.row, k, rows_)) : PooledVector<double>();
    if (factor.empty()) return false;
    ScalingPass pass;
    pass.row_scale = factor;
    pass.col_sum = part_of(to, k, cols_);
    passes_->run(pass);
    if (!take_logs(pass.col_sum)) return false;
    for (Index j = 0; j < cols_; ++j) {
      const double log = log_masses_[static_cast<std::size_t>(k * cols_ + j)];
      double& g = pass.col_sum[static_cast<std::size_t>(j)];
      g = log == minus_infinity ? minus_infinity : g - log;
    }
    return true;
  }

  void complete_columns(Index k, PooledVector<double>& to) {
    if (multiply_columns(k, to)) return;
    Pass<T> pass;
    pass.scores = &scores_;
    pass.order = Order::column_panels;
    pass.completes = Completes::columns;
    pass.components = {Component{1, part_of(found_.row, k, rows_), part_of(to, k, cols_)}};
    pass.log_marginal = part_of(log_masses_, k, cols_);
    attn::run(pass, threads_);
  }

  // The plans' column sums are a_k exp(g' − g) with the next g'; their row sums are p before its
  // scaling.
  double error_of_plans() const {
    double error = lacking_;
    for (Index k = 0; k < histograms_.count; ++k) {
      const auto masses = part_of(histograms_.masses, k, cols_);
      const auto col = part_of(found_.col, k, cols_);
      const auto next = part_of(next_, k, cols_);
      double one = 0;
      for (std::size_t j = 0; j < masses.size(); ++j) {
        if (masses[j] > 0) one += masses[j] * std::abs(std::expm1(next[j] - col[j]));
      }
      error += weight_of(k) > 0 ? weight_of(k) * one : 0;
    }
    return error;
  }

  // Evaluates the plans; returns their error.
  double measure() {
    SinkhornSummary& all = found_.summary;
    all = {};
    all.gap = 0;
    for (Index k = 0; k < histograms_.count; ++k) {
      const double weight = weight_of(k);
      if (weight == 0) continue;
      const auto copy = [](std::span<const double> values) {
        return PooledVector<double>(values.begin(), values.end());
      };
      Potentials potentials{
          copy(part_of(found_.row, k, rows_)), copy(part_of(found_.col, k, cols_)), {}};
      PlanSums<T> sums(scores_);
      show_weights<T>(scores_, potentials, 0, {&sums}, threads_);
      const Marginals marginals{found_.masses, copy(part_of(histograms_.masses, k, cols_))};
      const SinkhornSummary one = plan_summary(sums, marginals, potentials, size_);
      all.row_error += weight * one.row_error;
      all.col_error += weight * one.col_error;
      all.mass += weight * one.mass;
      all.score += weight * one.score;
      all.primal += weight * one.primal;
      all.dual += weight * one.dual;
      all.gap += weight * one.gap;
    }
    return all.row_error + all.col_error;
  }

  double weight_of(Index k) const { return histograms_.weights[static_cast<std::size_t>(k)]; }

  const Scores<T>& scores_;
  const Histograms& histograms_;
  const BarycentreOptions& options_;
  int threads_;
  Barycentre found_;
  WatchedSolution solution_;
  IterationWatch watch_;
  SinkhornState& now_ = solution_.now;
  GibbsKernel<T> kernel_;
  std::optional<ScalingPasses<T>> passes_;  // if the kernel is exp(s)
  Index rows_;
  Index cols_;
  double total_ = 0;  // of each histogram
  double size_ = 0;   // of the scores
  double lacking_ = 0;
  std::optional<double> tolerance_;
  PooledVector<double> log_masses_;
  PooledVector<double> next_;
};

}  // namespace

template <class T>
Barycentre find_barycentre(const Scores<T>& scores, const Histograms& histograms,
                           const BarycentreOptions& options, int threads,
                           SinkhornProgress* progress) {
  return BarycentreSolver<T>(scores, histograms, options, threads, progress).solve();
}

template <class T>
void show_mean_plan(const Scores<T>& scores, Barycentre& found, const Histograms& histograms,
                    const ObserverList<T>& observers, int threads) {
  Pass<T> pass;
  pass.scores = &scores;
  pass.observers = observers;
  for (Index k = 0; k < histograms.count; ++k) {
    const double weight = histograms.weights[static_cast<std::size_t>(k)];
    if (weight == 0) continue;
    pass.components.push_back(
        {weight, part_of(found.row, k, scores.rows()), part_of(found.col, k, scores.cols())});
  }
  run(pass, threads);
}

HistogramTotals equalise(PooledVector<double>& masses, Index count, double epsilon) {
  const Index cols = static_cast<Index>(masses.size()) / count;
  HistogramTotals totals;
  PooledVector<double> all;
  for (Index k = 0; k < count; ++k) {
    const auto own = part_of(masses, k, cols);
    all.push_back(std::accumulate(own.begin(), own.end(), 0.0));
    if (!std::isfinite(all.back())) {
      throw Error(Failure::input,
                  "histogram " + std::to_string(k) + " adds up to more than the range of float64");
    }
    const auto apart = [&](Index n) {
      return std::abs(all[static_cast<std::size_t>(n)] - all.front());
    };
    if (apart(k) > apart(totals.farthest)) totals.farthest = k;
  }
  totals.first = all.front();
  totals.other = all[static_cast<std::size_t>(totals.farthest)];
  totals.equal = totals_count_as_equal(totals.first, totals.other,
                                       static_cast<std::size_t>(2 * cols), epsilon);
  if (!totals.equal) return totals;
  for (Index k = 0; k < count; ++k) {
    const double total = all[static_cast<std::size_t>(k)];
    if (total == 0) continue;
    for (double& mass : part_of(masses, k, cols)) mass *= totals.first / total;
  }
  return totals;
}

std::int64_t barycentre_bytes(Index rows, Index cols, Index histograms, std::size_t element_size,
                              int threads) {
  const std::int64_t columns =
      pass_bytes(Order::column_panels, rows, cols, 1, element_size, threads);
  const std::int64_t shown =
      pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
      PlanSums<double>::bytes(partition_of(Order::row_panels, rows, cols, element_size), threads);
  // The logarithms of masses, the next g, and what a checkpoint copies; marginals and potentials of
  // one plan.
  return std::max({columns, shown, sinkhorn_bytes(rows, cols, element_size, threads)}) +
         (3 * histograms * cols + 3 * (rows + cols)) * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                 \
  template Barycentre find_barycentre(const Scores<T>&, const Histograms&,               \
                                      const BarycentreOptions&, int, SinkhornProgress*); \
  template void show_mean_plan(const Scores<T>&, Barycentre&, const Histograms&,         \
                               const ObserverList<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
