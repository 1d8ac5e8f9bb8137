#include "transport/gradient_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "gradient/plan_gradient.hpp"
#include "sinkhorn/plan_products.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int most_steps = 6;
constexpr double enough = 0.1;
// Steps end far from the solution, so that their systems need not be solved closely.
constexpr double step_tolerance = 1e-3;

// Σ of the squares of a derivative by pairs.
template <class T>
class SquareSum final : public GradientSink<T> {
 public:
  void start(Index lanes) override { lanes_.assign(static_cast<std::size_t>(lanes), 0.0); }
  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    double& sum = lanes_[static_cast<std::size_t>(lane)];
    for (Index i = 0; i < range.rows; ++i) {
      for (Index j = 0; j < range.cols; ++j) {
        sum += static_cast<double>(gradient(i, j)) * static_cast<double>(gradient(i, j));
      }
    }
  }
  void merge(Index lane, SumPart part) override {
    if (!part.is_last()) return;
    double& sum = lanes_[static_cast<std::size_t>(lane)];
    total_ += sum;
    sum = 0;
  }
  double total() const { return total_; }

 private:
  Numbers lanes_;
  double total_ = 0;
};

template <class T>
double length(const Scores<T>& scores, std::span<const SolutionTerm> terms,
              const MatrixSource<T>* g, int threads) {
  SquareSum<T> squares;
  GradientTargets<T> targets;
  targets.scores.push_back(&squares);
  differentiate_solutions<T>(scores, terms, g, targets, threads);
  return std::sqrt(squares.total());
}

// The sums of a plan less those that it should have; 0 for lines without mass.
struct Excess {
  Numbers row, col;
  double error = 0;

  template <class T>
  Excess(const Scores<T>& scores, Potentials& potentials, const Marginals& marginals, int threads) {
    const Numbers rows(potentials.row.size(), 1.0);
    const Numbers cols(potentials.col.size(), 1.0);
    PlanProducts<T> sums(rows, cols);
    show_weights<T>(scores, potentials, 0, {&sums}, threads);
    const SoftSides soft(marginals.penalties);
    row = excess(sums.rows(), marginals.row, potentials.row, soft.row);
    col = excess(sums.cols(), marginals.col, potentials.col, soft.col);
  }

 private:
  Numbers excess(const Numbers& sums, const Numbers& masses, const Numbers& potential,
                 std::optional<double> penalty) {
    Numbers found(sums.size(), 0.0);
    for (std::size_t n = 0; n < sums.size(); ++n) {
      if (masses[n] == 0 || std::isinf(potential[n])) continue;
      const double wanted = penalty ? masses[n] * std::exp(potential[n] / *penalty) : masses[n];
      found[n] = sums[n] - wanted;
      error += std::abs(found[n]);
    }
    return found;
  }
};

// |x − y| over |y| of vectors in two parts.
double distance(const ImplicitGradient& x, const ImplicitGradient& y) {
  double apart = 0;
  double whole = 0;
  const auto add = [&](const Numbers& a, const Numbers& b) {
    for (std::size_t n = 0; n < a.size(); ++n) {
      apart += (a[n] - b[n]) * (a[n] - b[n]);
      whole += b[n] * b[n];
    }
  };
  add(x.row, y.row);
  add(x.col, y.col);
  return whole > 0 ? std::sqrt(apart / whole) : 0;
}

}  // namespace

template <class T>
double gradient_error(const Scores<T>& scores, const Potentials& potentials,
                      const Marginals& marginals, const PlanUpstream<T>& upstream,
                      const ImplicitGradient& solved, bool by_marginals,
                      const ImplicitOptions& options, int threads) {
  Potentials nearer = potentials;
  std::optional<double> first;
  for (int step = 0;; ++step) {
    const Excess excess(scores, nearer, marginals, threads);
    if (!first) first = excess.error;
    if (!std::isfinite(excess.error)) return nan;
    const double reached = std::max(enough * *first, options.tolerance * marginals.total());
    if (step > 0 && excess.error <= reached) break;
    if (step == most_steps) return nan;
    const ImplicitGradient move = implicit_gradient<T>(
        scores, nearer, marginals, {nullptr, excess.row, excess.col},
        {std::max(step_tolerance, options.tolerance), options.iterations}, threads);
    for (std::size_t i = 0; i < move.row.size(); ++i) nearer.row[i] += move.row[i];
    for (std::size_t j = 0; j < move.col.size(); ++j) nearer.col[j] += move.col[j];
  }
  const ImplicitGradient again =
      implicit_gradient(scores, nearer, marginals, upstream, options, threads);
  const SolutionTerm here{1, potentials.row, potentials.col, solved.row, solved.col};
  const SolutionTerm there{-1, nearer.row, nearer.col, again.row, again.col};
  const double whole = length<T>(scores, {&here, 1}, upstream.plan, threads);
  const PooledVector<SolutionTerm> both = {here, there};
  double error = length<T>(scores, both, upstream.plan, threads);
  if (error > 0) error /= whole;
  return by_marginals ? std::max(error, distance(again, solved)) : error;
}

std::int64_t gradient_error_bytes(Index rows, Index cols) {
  // Potentials, excess, the move, two solutions with their sums.
  return 14 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                \
  template double gradient_error(const Scores<T>&, const Potentials&, const Marginals&, \
                                 const PlanUpstream<T>&, const ImplicitGradient&, bool, \
                                 const ImplicitOptions&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
