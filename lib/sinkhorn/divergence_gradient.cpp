#include "sinkhorn/divergence_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/plan_products.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The derivatives by the masses of one side, summed over problems.
struct SideSum {
  explicit SideSum(std::span<const double> marginal)
      : marginal(marginal), by(marginal.size(), 0.0), x(marginal.size(), 0.0) {}

  // Terms −x_i/a_i of opposite signs cancel, also if they are infinite.
  PooledVector<double> total() && {
    for (std::size_t n = 0; n < by.size(); ++n) {
      if (x[n] != 0) by[n] -= marginal[n] == 0 ? x[n] * infinity : x[n] / marginal[n];
    }
    return std::move(by);
  }

  std::span<const double> marginal;
  PooledVector<double> by;
  PooledVector<double> x;  // of lines without mass
};

// One side of a problem.
struct ProblemSide {
  std::span<const double> z;         // u or v
  std::span<const double> sums;      // r or c
  std::span<const double> marginal;  // a or b
  std::span<const double> upstream;  // x or y; empty: 0
  std::span<const double> more;      // a part of D at lines of mass 0; empty: 0
  bool empty = is_empty(marginal);

  double mean(std::size_t n, const PooledVector<double>& means) const {
    return more.empty() ? means[n] : means[n] + more[n];
  }

  bool has_mass(std::size_t n) const { return marginal[n] > 0 && sums[n] > 0; }

  bool needs_completion() const {
    for (std::size_t n = 0; n < marginal.size(); ++n) {
      if (!has_mass(n)) return true;
    }
    return false;
  }

  // With penalties, and the scores of RelativeEnergy; without −x_i/a_i of lines without mass, for
  // which `means` and `completed` are read.
  double relative_derivative(std::size_t n, double penalty, const PooledVector<double>& means,
                             const PooledVector<double>& completed) const {
    if (has_mass(n)) return -z[n] * (1 + 1 / penalty) * sums[n] / marginal[n];
    if (std::isnan(means[n])) return 0;  // nowhere to go
    if (empty) return std::numeric_limits<double>::quiet_NaN();
    return mean(n, means) * std::exp(completed[n] / (penalty + 1));
  }

  // Adds `derivatives` without the terms −x_i/a_i of lines without mass, and these terms.
  // `completed` as above, empty if not known.
  void add(const PooledVector<double>& derivatives, const PooledVector<double>& completed,
           SideSum& to) const {
    for (std::size_t n = 0; n < derivatives.size(); ++n) {
      to.by[n] += derivatives[n];
      if (upstream.empty() || has_mass(n)) continue;
      if (completed.empty() || completed[n] != minus_infinity) to.x[n] += upstream[n];
    }
  }
};

template <class T>
void add_relative_gradient(const Scores<T>& scores, const ProblemSide& row, const ProblemSide& col,
                           const Potentials& potentials, const MarginalPenalties& penalties,
                           int threads, SideSum& by_row, SideSum& by_col) {
  const auto add = [](const ProblemSide& side, double penalty, const PooledVector<double>& means,
                      const PooledVector<double>& completed, SideSum& to) {
    PooledVector<double> derivatives;
    for (std::size_t n = 0; n < side.marginal.size(); ++n) {
      derivatives.push_back(side.relative_derivative(n, penalty, means, completed));
    }
    side.add(derivatives, completed, to);
  };
  PooledVector<double> means, completed;
  if (row.needs_completion()) {
    const auto g = reached_potentials(potentials.col, row.marginal, col.marginal);
    means = row_means<T>(scores, g, nullptr, col.z, threads);
    completed = completed_rows<T>(scores, g, threads);
  }
  add(row, penalties.row, means, completed, by_row);
  if (col.needs_completion()) {
    const auto f = reached_potentials(potentials.row, col.marginal, row.marginal);
    means = col_means<T>(scores, f, nullptr, row.z, threads);
    completed = completed_cols<T>(scores, f, threads);
  }
  add(col, penalties.col, means, completed, by_col);
}

// rate x_i at lines of mass 0, else 0.
PooledVector<double> at_mass_0(std::span<const double> x, const PooledVector<double>& marginal,
                               double rate) {
  PooledVector<double> found(marginal.size(), 0.0);
  for (std::size_t n = 0; n < x.size(); ++n) found[n] = marginal[n] == 0 ? rate * x[n] : 0;
  return found;
}

// `completed`; lines for which `is_open` is false are closed.
template <class IsOpen>
PooledVector<double> only_where(const IsOpen& is_open, PooledVector<double> completed) {
  for (std::size_t n = 0; n < completed.size(); ++n) {
    if (!is_open(n)) completed[n] = minus_infinity;
  }
  return completed;
}

PooledVector<double> difference(std::span<const double> of, const PooledVector<double>& less) {
  PooledVector<double> found(less.size(), 0.0);
  for (std::size_t n = 0; n < less.size(); ++n) found[n] = (of.empty() ? 0 : of[n]) - less[n];
  return found;
}

// Lines of mass 0 on whose potentials f_i = rate LSE_j(s_ij − g_j) − log a_i a number depends.
// These have the derivatives −rate q_ij by g_j, and rate q_ij by s_ij.
template <class T>
class LinesOfMass0 {
 public:
  LinesOfMass0(const Scores<T>& scores, const Potentials& potentials, const Marginals& marginals,
               std::span<const double> x, std::span<const double> y, int threads)
      : x_(x.begin(), x.end()), y_(y.begin(), y.end()) {
    const auto rate = [](double penalty) { return penalty / (penalty + 1); };
    const auto& penalties = marginals.penalties;
    PooledVector<double> at_x = at_mass_0(x, marginals.row, penalties ? rate(penalties->row) : 1);
    PooledVector<double> at_y = at_mass_0(y, marginals.col, penalties ? rate(penalties->col) : 1);
    if (is_empty(at_x) && is_empty(at_y)) return;
    const PooledVector<double> row =
        only_where([&](std::size_t i) { return marginals.row[i] == 0; },
                   completed_rows<T>(scores, potentials.col, threads));
    const PooledVector<double> col =
        only_where([&](std::size_t j) { return marginals.col[j] == 0; },
                   completed_cols<T>(scores, potentials.row, threads));
    // Weights between two lines of mass 0 may be infinite, which only those with x or y should see.
    const auto row_x = only_where([&](std::size_t i) { return at_x[i] != 0; }, row);
    const auto col_y = only_where([&](std::size_t j) { return at_y[j] != 0; }, col);
    const auto products = [&](Potentials plan) {
      PlanProducts<T> found(at_x, at_y);
      show_weights<T>(scores, plan, 0, {&found}, threads);
      return found;
    };
    y_ = difference(y, products({row_x, potentials.col, {}}).cols());
    x_ = difference(x, products({potentials.row, col_y, {}}).rows());
    row_means_ = products({row, col_y, {}}).rows();
    col_means_ = products({row_x, col, {}}).cols();
    const PooledVector<double> no_x(at_x.size(), 0.0), no_y(at_y.size(), 0.0);
    terms_.push_back({{row_x, potentials.col, {}}, {{}, std::move(at_x), no_y, {}, {}}});
    terms_.push_back({{potentials.row, col_y, {}}, {{}, no_x, std::move(at_y), {}, {}}});
  }

  // x and y with the derivatives through these lines.
  const PooledVector<double>& x() const { return x_; }
  const PooledVector<double>& y() const { return y_; }

  // The parts of D at lines of mass 0 by what these of the other side would gain; empty: none.
  const PooledVector<double>& row_means() const { return row_means_; }
  const PooledVector<double>& col_means() const { return col_means_; }

  PooledVector<ImplicitTerm> terms() && { return std::move(terms_); }

 private:
  PooledVector<double> x_, y_, row_means_, col_means_;
  PooledVector<ImplicitTerm> terms_;
};

// The derivatives through one of the problems; adds the derivatives by its marginals.
template <class T>
ProblemGradient through_problem(const Scores<T>& scores, Potentials& potentials,
                                const Marginals& marginals, std::span<const double> x,
                                std::span<const double> y, const ImplicitOptions& options,
                                int threads, SideSum& by_row, SideSum& by_col) {
  LinesOfMass0<T> without(scores, potentials, marginals, x, y, threads);
  ProblemGradient solved{
      implicit_gradient<T>(scores, potentials, marginals, {nullptr, without.x(), without.y()},
                           options, threads),
      {}};
  const ProblemSide row{solved.row, solved.row_sums, marginals.row, x, without.row_means()};
  const ProblemSide col{solved.col, solved.col_sums, marginals.col, y, without.col_means()};
  if (marginals.penalties) {
    add_relative_gradient(scores, row, col, potentials, *marginals.penalties, threads, by_row,
                          by_col);
  } else {
    Potentials by =
        implicit_marginal_gradient<T>(scores, solved, potentials, marginals, {}, threads);
    for (std::size_t i = 0; i < by.row.size(); ++i) by.row[i] = row.mean(i, by.row);
    for (std::size_t j = 0; j < by.col.size(); ++j) by.col[j] = col.mean(j, by.col);
    row.add(by.row, {}, by_row);
    col.add(by.col, {}, by_col);
  }
  solved.without_mass = std::move(without).terms();
  return solved;
}

}  // namespace

template <class T>
Potentials divergence_gradient(const DivergenceScores<T>& scores, const SinkhornDivergence& found,
                               const Marginals& marginals, int threads) {
  const std::optional<MarginalPenalties>& penalties = marginals.penalties;
  Potentials gradient;
  gradient.row = completed_rows<T>(scores.row, found.row.potentials.col, threads);
  gradient.col = completed_rows<T>(scores.col, found.col.potentials.col, threads);
  // Potentials here have the opposite sign of those in the literature on transport.
  const Potentials& of = found.between.potentials;
  const PooledVector<double> row = completed_rows<T>(
      scores.between, reached_potentials(of.col, marginals.row, marginals.col), threads);
  const PooledVector<double> col = completed_cols<T>(
      scores.between, reached_potentials(of.row, marginals.col, marginals.row), threads);
  const auto subtract = [&](const PooledVector<double>& between, const PooledVector<double>& masses,
                            PooledVector<double>& from) {
    const bool empty = is_empty(masses);
    for (std::size_t n = 0; n < between.size(); ++n) {
      const bool nowhere = between[n] == minus_infinity;
      if (empty && !nowhere) {
        from[n] = minus_infinity;
      } else if (nowhere && !penalties) {
        from[n] = empty ? std::numeric_limits<double>::quiet_NaN() : infinity;
      } else if (penalties) {
        const double soft = penalties->row + 1;
        from[n] = soft * (std::expm1(from[n] / soft) - std::expm1(between[n] / soft));
      } else {
        from[n] -= between[n];
      }
    }
  };
  subtract(row, marginals.row, gradient.row);
  subtract(col, marginals.col, gradient.col);
  return gradient;
}

template <class T>
ImplicitDivergence implicit_divergence(const DivergenceScores<T>& scores, SinkhornDivergence& found,
                                       const Marginals& marginals,
                                       const DivergenceUpstream& upstream,
                                       const ImplicitOptions& options, int threads) {
  ImplicitDivergence all;
  SideSum by_a(marginals.row), by_b(marginals.col);
  all.between = through_problem<T>(scores.between, found.between.potentials, marginals,
                                   upstream.row, upstream.col, options, threads, by_a, by_b);
  const auto with_itself = [&](const Scores<T>& own, SinkhornSolution& solution,
                               const PooledVector<double>& marginal,
                               std::span<const double> by_potential, SideSum& by) {
    PooledVector<double> half(by_potential.begin(), by_potential.end());
    for (double& value : half) value /= 2;
    return through_problem<T>(own, solution.potentials, {marginal, marginal, marginals.penalties},
                              half, half, options, threads, by, by);
  };
  all.row = with_itself(scores.row, found.row, marginals.row, upstream.row_self, by_a);
  all.col = with_itself(scores.col, found.col, marginals.col, upstream.col_self, by_b);
  all.marginals.row = std::move(by_a).total();
  all.marginals.col = std::move(by_b).total();
  for (const ImplicitGradient* const one : {&all.between, &all.row, &all.col}) {
    all.status = std::max(all.status, one->status);
    all.iterations = std::max(all.iterations, one->iterations);
    all.residual = std::max(all.residual, one->residual);
  }
  return all;
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template Potentials divergence_gradient(const DivergenceScores<T>&, const SinkhornDivergence&,   \
                                          const Marginals&, int);                                  \
  template ImplicitDivergence implicit_divergence(const DivergenceScores<T>&, SinkhornDivergence&, \
                                                  const Marginals&, const DivergenceUpstream&,     \
                                                  const ImplicitOptions&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
