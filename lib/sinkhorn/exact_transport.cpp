#include "sinkhorn/exact_transport.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "attnkit/error.hpp"
#include "sinkhorn/c_transform.hpp"
#include "sinkhorn/exact_bounds.hpp"
#include "sinkhorn/network_simplex.hpp"
#include "sinkhorn/plan_sums.hpp"
#include "sinkhorn/relaxation.hpp"
#include "sinkhorn/rounded_plan.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/tempered_energy.hpp"
#include "sinkhorn/watched_solution.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// ε is divided by `exact_cooling` at a time; at first, scores differ by about `first_spread`.
constexpr double exact_cooling = 2;
constexpr double first_spread = 16;

// Iterations move to the next ε at an error of the marginals of this many times ε Σ a over the
// range of the costs. Rounding the plan costs up to half of the error times that range; it costs
// much less if only near pairs lack mass, and the next ε lowers both. Larger shares are faster
// unless they stall.
constexpr double rounding_share = 5;

// At the least ε, rounding of the potentials makes sums miss their marginals, by a relative
// `least_epsilon` or so. Factors of lines near 1 have no such rounding; this many rounds of
// factors, one pass each, correct the sums.
constexpr int balancing_rounds = 32;

// The least ε relative to the largest score: potentials carry roundings of scores over ε, which
// affect the plan's sums, and more so as ε falls further.
template <class T>
constexpr double least_epsilon = sizeof(T) == sizeof(float) ? 1e-5 : 1e-8;

template <class T>
class AnnealedSolver {
 public:
  AnnealedSolver(const Scores<T>& scores, const Marginals& marginals, const ExactOptions& options,
                 const ObserverList<T>& observers, int threads, SinkhornProgress* progress)
      : scores_(scores),
        marginals_(marginals),
        options_(options),
        observers_(observers),
        threads_(threads),
        solution_(progress, nullptr),
        row_(static_cast<std::size_t>(scores.rows())),
        col_(static_cast<std::size_t>(scores.cols())) {
    for (const double a : marginals.row) log_row_.push_back(std::log(a));
    for (const double b : marginals.col) log_col_.push_back(std::log(b));
  }

  ExactSolution solve() {
    const ScoreRange range = score_range(scores_, marginals_.row, marginals_.col, threads_);
    if (range.least == minus_infinity) {
      throw Error(Failure::input, "annealing requires a finite cost of every pair with mass",
                  "the simplex, which takes more memory, leaves pairs out");
    }
    // Without mass there is no pair, and the range is empty.
    if (range.least <= range.largest) {
      spread_ = range.largest - range.least;
      size_ = std::max(std::abs(range.largest), std::abs(range.least));
    }
    found_.summary.method = ExactMethod::annealing;
    found_.summary.rounding = exact_rounding<T> * size_ * marginals_.total();
    solution_.run([&] { anneal(); });
    found_.summary.iterations = now_.iterations;
    return std::move(found_);
  }

 private:
  void anneal() {
    // An ε far below the scores would be lost in their rounding, and the plan's marginals with it.
    // If scores do not differ, any plan with these marginals is a solution.
    const double widest = spread_ > 0 ? std::max(spread_, first_spread * least_epsilon<T> * size_)
                                      : std::max(1.0, size_);
    now_.temperature = first_spread / widest;
    if (solution_.start() != nullptr) {
      now_.temperature = solution_.start()->temperature;
      now_.iterations = solution_.start()->iterations;
    }
    for (bool started = solution_.start() != nullptr;; now_.temperature *= exact_cooling) {
      const TemperedEnergy<T> energy(scores_, now_.temperature);
      typename Scores<T>::Terms terms;
      terms.energy = &energy;
      const Scores<T> warm(terms);
      if (started && solution_.start() == nullptr) {
        for (double& g : col_) g *= exact_cooling;
      }
      run(warm, started);
      started = true;
      const bool lost = !(1 / now_.temperature >= least_epsilon<T> * size_);
      const bool last = now_.iterations >= options_.max_iterations || lost;
      if (!certify(warm, last, lost)) continue;
      found_.summary.limited_by_rounding = lost && now_.iterations < options_.max_iterations &&
                                           found_.summary.status == SolveStatus::not_converged;
      return;
    }
  }

  void run(const Scores<T>& warm, bool started) {
    SinkhornIteration<T> iteration(warm, {log_row_, log_col_}, options_.tuning.kept_bytes,
                                   threads_);
    if (!started) iteration.start(col_);
    now_.relaxation = {};
    now_.relaxation.wanted = options_.relaxation;
    const SinkhornState* const from = solution_.take_start();
    if (from != nullptr) now_.relaxation = from->relaxation;
    const double total = marginals_.total();
    const double unit = 1 / (now_.temperature * std::max(spread_, 1 / now_.temperature));
    const double aim = total * std::max(rounding_share * unit, exact_rounding<T>);
    iteration.iterate(
        col_, row_,
        [&](const MarginalErrors& errors) -> std::optional<double> {
          const double error = errors.row + errors.col;
          ++now_.iterations;
          if (error <= aim || now_.iterations >= options_.max_iterations) return std::nullopt;
          return next_relaxation(error, now_.relaxation);
        },
        solution_.watch(), from == nullptr ? nullptr : &from->iteration);
  }

  // Bounds the value by the potentials at this ε; true if they are close enough, or if this is the
  // last ε. The plan is then shown.
  bool certify(const Scores<T>& warm, bool last, bool lost) {
    Potentials plan{row_, col_, {}};
    PlanRounding rounding;
    bound();
    bool close = round(warm, plan, rounding);
    if (!close && lost) {
      balance(warm, plan, rounding);
      close = round(warm, plan, rounding);
    }
    if (!close && !last) return false;
    if (!observers_.empty()) show_rounded(warm, plan, rounding, observers_);
    found_.summary.epsilon = 1 / now_.temperature;
    absorb(rounding.row_factor, plan.row);
    absorb(rounding.col_factor, plan.col);
    found_.scaled_down = std::move(plan);
    found_.row_missing = std::move(rounding.row_missing);
    found_.col_missing = std::move(rounding.col_missing);
    return true;
  }

  void bound() {
    Potentials& potentials = found_.potentials;
    potentials.col = col_;
    for (double& g : potentials.col) {
      // If scores do not differ, any plan is a solution, which equal potentials prove.
      g = spread_ > 0 || std::isinf(g) ? g / now_.temperature : 0;
    }
    found_.summary.lower = bound_below(scores_, marginals_, potentials, threads_);
  }

  // Rounds the plan times the factors in `rounding`, if there are any, to its marginals; its value
  // is an upper bound. True if the bounds are close.
  bool round(const Scores<T>& warm, Potentials& plan, PlanRounding& rounding) {
    if (rounding.row_factor.empty()) {
      rounding.row_factor.assign(row_.size(), 1.0);
      rounding.col_factor.assign(col_.size(), 1.0);
    }
    PlanSums<T> before(scores_);
    show_scaled(warm, plan, rounding, before);
    scale_down(before.rows(), marginals_.row, rounding.row_factor);
    scale_down(before.cols(), marginals_.col, rounding.col_factor);
    PlanSums<T> scaled(scores_);
    show_scaled(warm, plan, rounding, scaled);
    rounding.row_missing = missing(scaled.rows(), marginals_.row);
    rounding.col_missing = missing(scaled.cols(), marginals_.col);
    PlanSums<T> rounded(scores_);
    show_rounded(warm, plan, rounding, {&rounded});
    bound_above(rounded, marginals_, options_.gap, size_, found_.summary);
    return found_.summary.status == SolveStatus::converged;
  }

  // Finds factors near 1 of the plan's lines that give the plan its marginals.
  void balance(const Scores<T>& warm, Potentials& plan, PlanRounding& rounding) const {
    std::fill(rounding.row_factor.begin(), rounding.row_factor.end(), 1.0);
    std::fill(rounding.col_factor.begin(), rounding.col_factor.end(), 1.0);
    for (int n = 0; n < balancing_rounds; ++n) {
      PlanSums<T> sums(scores_);
      show_scaled(warm, plan, rounding, sums);
      const bool rows = n % 2 == 0;
      const auto& found = rows ? sums.rows() : sums.cols();
      const auto& wanted = rows ? marginals_.row : marginals_.col;
      auto& factor = rows ? rounding.row_factor : rounding.col_factor;
      for (std::size_t line = 0; line < found.size(); ++line) {
        if (found[line] > 0) factor[line] *= wanted[line] / found[line];
      }
    }
  }

  // Shows the plan times its factors, without the missing mass.
  void show_scaled(const Scores<T>& warm, Potentials& plan, PlanRounding& rounding,
                   PlanSums<T>& sums) const {
    rounding.row_missing.clear();
    rounding.col_missing.clear();
    show_rounded(warm, plan, rounding, {&sums});
  }

  void show_rounded(const Scores<T>& warm, Potentials& plan, const PlanRounding& rounding,
                    const ObserverList<T>& observers) const {
    RoundedPlan<T> rounded(rounding, observers);
    show_weights<T>(warm, plan, 0, {&rounded}, threads_);
  }

  // Multiplies the factors so that no line's sum exceeds its marginal.
  static void scale_down(const PooledVector<double>& sum, const PooledVector<double>& marginal,
                         PooledVector<double>& factors) {
    for (std::size_t n = 0; n < sum.size(); ++n) {
      if (sum[n] > marginal[n]) factors[n] *= marginal[n] / sum[n];
    }
  }

  static void absorb(const PooledVector<double>& factors, PooledVector<double>& potential) {
    for (std::size_t n = 0; n < factors.size(); ++n) {
      if (factors[n] != 1) potential[n] -= std::log(factors[n]);
    }
  }

  static PooledVector<double> missing(const PooledVector<double>& sum,
                                      const PooledVector<double>& marginal) {
    PooledVector<double> values;
    for (std::size_t n = 0; n < sum.size(); ++n) {
      values.push_back(std::max(0.0, marginal[n] - sum[n]));
    }
    return values;
  }

  const Scores<T>& scores_;
  const Marginals& marginals_;
  const ExactOptions& options_;
  const ObserverList<T>& observers_;
  int threads_;
  WatchedSolution solution_;
  SinkhornState& now_ = solution_.now;
  PooledVector<double> row_, col_, log_row_, log_col_;
  double spread_ = 0;  // of the scores
  double size_ = 0;    // the largest of them in magnitude
  ExactSolution found_;
};

// The power of two by which scores are multiplied before they are divided by ε: for tiny scores,
// 1/ε would be beyond T.
template <class T>
int enlargement(double magnitude) {
  constexpr int most = std::numeric_limits<T>::max_exponent - 24;
  if (!(magnitude > 0 && std::isfinite(magnitude))) return 0;
  return std::clamp(-std::ilogb(magnitude) - most / 2, 0, most);
}

// Divides results in units of the scores by 2^exponent.
void diminish(int exponent, ExactSolution& found) {
  for (double& f : found.potentials.row) f = std::ldexp(f, -exponent);
  for (double& g : found.potentials.col) g = std::ldexp(g, -exponent);
  ExactSummary& summary = found.summary;
  for (double* const one : {&summary.value, &summary.lower, &summary.epsilon, &summary.rounding}) {
    *one = std::ldexp(*one, -exponent);
  }
}

template <class T>
ExactSolution anneal(const Scores<T>& scores, const Marginals& marginals,
                     const ExactOptions& options, const ObserverList<T>& observers, int threads,
                     SinkhornProgress* progress) {
  const int exponent = enlargement<T>(scores.magnitude());
  if (exponent == 0) {
    return AnnealedSolver<T>(scores, marginals, options, observers, threads, progress).solve();
  }
  const TemperedEnergy<T> enlarged(scores, std::ldexp(1.0, exponent));
  typename Scores<T>::Terms terms;
  terms.energy = &enlarged;
  ExactSolution found =
      AnnealedSolver<T>(Scores<T>(terms), marginals, options, observers, threads, progress).solve();
  diminish(exponent, found);
  return found;
}

}  // namespace

ExactMethod exact_method(const ExactOptions& options, Index rows, Index cols,
                         std::size_t element_size) {
  if (options.method != ExactMethod::automatic) return options.method;
  const bool fits = pivoting_bytes(rows, cols, element_size) <= options.simplex_bytes;
  return fits ? ExactMethod::simplex : ExactMethod::annealing;
}

template <class T>
ExactSolution solve_exact(const Scores<T>& scores, const Marginals& marginals,
                          const ExactOptions& options, const ObserverList<T>& observers,
                          int threads, SinkhornProgress* progress) {
  if (exact_method(options, scores.rows(), scores.cols(), sizeof(T)) == ExactMethod::simplex) {
    return solve_by_simplex(scores, marginals, options.gap, observers, threads);
  }
  return anneal(scores, marginals, options, observers, threads, progress);
}

std::int64_t exact_transport_bytes(ExactMethod method, Index rows, Index cols,
                                   std::size_t element_size, int threads) {
  // Its passes are the passes of the solver of entropic transport, with one more tile for each
  // thread.
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  const std::int64_t passes =
      sinkhorn_solver_bytes(rows, cols, element_size, threads) +
      threads * partition.panel * pass_tile_length * static_cast<Index>(element_size);
  if (method == ExactMethod::simplex) return passes + pivoting_bytes(rows, cols, element_size);
  return passes + 8 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

template ExactSolution solve_exact(const Scores<float>&, const Marginals&, const ExactOptions&,
                                   const ObserverList<float>&, int, SinkhornProgress*);
template ExactSolution solve_exact(const Scores<double>&, const Marginals&, const ExactOptions&,
                                   const ObserverList<double>&, int, SinkhornProgress*);

}  // namespace attn
