#include <cmath>
#include <type_traits>

#include "kernel/small_scaling.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/small_logarithms.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/small_group-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// log Σ_n exp(of(n)), −inf without a finite one.
template <class Of>
WideVec log_sum(Index count, const Of& of) {
  const Wide d;
  const WideVec none = hn::Set(d, minus_infinity);
  WideVec largest = none;
  for (Index n = 0; n < count; ++n) largest = hn::Max(largest, of(n));
  const auto empty = hn::Eq(largest, none);
  const WideVec shift = hn::IfThenZeroElse(empty, largest);
  WideVec sum = hn::Zero(d);
  for (Index n = 0; n < count; ++n) sum = hn::Add(sum, hn::Exp(d, hn::Sub(of(n), shift)));
  const WideVec safe = hn::IfThenElse(empty, hn::Set(d, 1.0), sum);
  return hn::IfThenElse(empty, none, hn::Add(shift, hn::Log(d, safe)));
}

// The same with one more term.
template <class Of>
WideVec log_sum_with(WideVec term, Index count, const Of& of) {
  return log_sum(count + 1, [&](Index n) HWY_ATTR { return n < count ? of(n) : term; });
}

// One group by logarithms. Potentials are in the form in which they are subtracted: +inf for a line
// without weight.
class LogGroup {
 public:
  LogGroup(const Group<double>& group, Index iterations, double eps)
      : group_(group), iterations_(iterations), with_eps_(eps > 0), log_eps_(std::log(eps)) {}

  void iterate() const {
    const Wide d;
    if (with_eps_) soften();
    for (Index i = 0; i < group_.rows; ++i) set(group_.row, i, hn::Zero(d));
    for (Index j = 0; with_eps_ && j < group_.cols; ++j) set(group_.col_of(1), j, hn::Zero(d));
    for (Index t = 1; t <= iterations_; ++t) {
      const double* const row_before = group_.row_of(t - 1);
      const double* const col_before = group_.col_of(t - 1);
      double* const row = group_.row_of(t);
      double* const col = group_.col_of(t);
      for (Index j = 0; (!with_eps_ || t > 1) && j < group_.cols; ++j) {
        const auto of = [&](Index i)
                            HWY_ATTR { return hn::Sub(group_.score(i, j), at(row_before, i)); };
        set(col, j, potential(group_.rows, of, group_.col_marginal, col_before, j));
      }
      for (Index i = 0; i < group_.rows; ++i) {
        const auto of = [&](Index j) HWY_ATTR { return hn::Sub(group_.score(i, j), at(col, j)); };
        set(row, i, potential(group_.cols, of, group_.row_marginal, row_before, i));
      }
    }
  }

  // gradient <- ∂L/∂s, by the weights of each half-step.
  void differentiate() const {
    const Wide d;
    double* const row_adjoint = group_.row_adjoint;  // φ of one half-step
    double* const col_adjoint = group_.col_adjoint;  // γ
    invert_marginals(group_);
    for (Index j = 0; j < group_.cols; ++j) set(col_adjoint, j, hn::Zero(d));
    for (Index i = 0; i < group_.rows; ++i) {
      WideVec sum = hn::Zero(d);
      for (Index j = 0; j < group_.cols; ++j) {
        const Index n = i * group_.cols + j;
        const WideVec term =
            hn::Mul(weight(i, j, iterations_, iterations_), at(group_.gradient, n));
        set(group_.gradient, n, term);
        sum = hn::Sub(sum, term);
        set(col_adjoint, j, hn::Sub(at(col_adjoint, j), term));
      }
      set(row_adjoint, i, sum);
    }
    for (Index t = iterations_; t >= 1; --t) {
      take_back(group_.rows, row_adjoint, group_.row_share, group_.row_of(t), group_.row_of(t - 1),
                [&](Index i, const WideVec& share) HWY_ATTR { spread_row(i, t, share); });
      if (with_eps_ && t == 1) break;
      take_back(group_.cols, col_adjoint, group_.col_share, group_.col_of(t), group_.col_of(t - 1),
                [&](Index j, const WideVec& share) HWY_ATTR { spread_col(j, t, share); });
    }
    if (with_eps_) through_softmax();
  }

  WideVec weight(Index i, Index j, Index row_of, Index col_of) const {
    const WideVec exponent = hn::Sub(hn::Sub(group_.score(i, j), at(group_.col_of(col_of), j)),
                                     at(group_.row_of(row_of), i));
    return hn::Exp(Wide(), exponent);
  }

 private:
  // scores <- log(softmax of each column + eps); softmax <- its logarithm without eps.
  void soften() const {
    const Wide d;
    const WideVec log_eps = hn::Set(d, log_eps_);
    for (Index j = 0; j < group_.cols; ++j) {
      const WideVec log =
          log_sum(group_.rows, [&](Index i) HWY_ATTR { return group_.score(i, j); });
      for (Index i = 0; i < group_.rows; ++i) {
        const WideVec logit = hn::Sub(group_.score(i, j), log);
        if (group_.row_step > 0) set(group_.softmax, i * group_.cols + j, logit);
        group_.set_score(i, j, log_sum_with(log_eps, 1, [&](Index) HWY_ATTR { return logit; }));
      }
    }
  }

  template <class Of>
  WideVec potential(Index count, const Of& of, const double* marginals, const double* before,
                    Index n) const {
    const Wide d;
    if (with_eps_) {
      // The line is exp(of − before); ε is a part of the sum relative to `before`.
      return log_sum_with(hn::Add(hn::Set(d, log_eps_), at(before, n)), count, of);
    }
    const WideVec log = log_sum(count, of);
    const WideVec marginal = at(marginals, n);
    const auto empty =
        hn::Or(hn::Eq(log, hn::Set(d, minus_infinity)), hn::Eq(marginal, hn::Zero(d)));
    const WideVec safe = hn::IfThenElse(empty, hn::Set(d, 1.0), marginal);
    return hn::IfThenElse(empty, hn::Set(d, -minus_infinity), hn::Sub(log, hn::Log(d, safe)));
  }

  // Takes back the half-step that made the potentials `now` from `before`: calls use(n, share) with
  // each line's adjoint over its marginal. With ε, leaves the share of the half-step before in
  // `adjoints`.
  template <class Use>
  void take_back(Index count, double* adjoints, const double* shares, const double* now,
                 const double* before, const Use& use) const {
    const Wide d;
    for (Index n = 0; n < count; ++n) {
      const WideVec adjoint = at(adjoints, n);
      if (with_eps_) {
        const WideVec kept =
            hn::Exp(d, hn::Add(hn::Set(d, log_eps_), hn::Sub(at(before, n), at(now, n))));
        set(adjoints, n, hn::Mul(kept, adjoint));
        use(n, adjoint);
      } else {
        set(adjoints, n, hn::Zero(d));
        use(n, hn::Mul(adjoint, at(shares, n)));
      }
    }
  }

  // The row's half-step t: ∂f_i/∂s_ij = P_ij/a_i, ∂f_i/∂g_j = −P_ij/a_i.
  void spread_row(Index i, Index t, const WideVec& share) const {
    for (Index j = 0; j < group_.cols; ++j)
      add(i, j, hn::Mul(weight(i, j, t, t), share), j, group_.col_adjoint);
  }
  void spread_col(Index j, Index t, const WideVec& share) const {
    for (Index i = 0; i < group_.rows; ++i)
      add(i, j, hn::Mul(weight(i, j, t - 1, t), share), i, group_.row_adjoint);
  }
  void add(Index i, Index j, const WideVec& term, Index other, double* adjoint) const {
    const Index n = i * group_.cols + j;
    set(group_.gradient, n, hn::Add(at(group_.gradient, n), term));
    set(adjoint, other, hn::Sub(at(adjoint, other), term));
  }

  // From the logarithm of softmax + eps to the scores.
  void through_softmax() const {
    const Wide d;
    for (Index j = 0; j < group_.cols; ++j) {
      WideVec sum = hn::Zero(d);
      for (Index i = 0; i < group_.rows; ++i) {
        const Index n = i * group_.cols + j;
        const WideVec part = hn::Exp(d, hn::Sub(at(group_.softmax, n), group_.score(i, j)));
        const WideVec term = hn::Mul(part, at(group_.gradient, n));
        set(group_.gradient, n, term);
        sum = hn::Add(sum, term);
      }
      for (Index i = 0; i < group_.rows; ++i) {
        const Index n = i * group_.cols + j;
        const WideVec weight = hn::Exp(d, at(group_.softmax, n));
        set(group_.gradient, n, hn::NegMulAdd(weight, sum, at(group_.gradient, n)));
      }
    }
  }

  const Group<double>& group_;
  Index iterations_;
  bool with_eps_;
  double log_eps_;
};

template <class T>
void SmallLogarithms(const SmallProblems<T>& given, const SmallResults<T>& wanted, Index iterations,
                     double* scratch, std::span<const Index> chosen) {
  const SmallProblems<T> problems = turned(given);
  const SmallResults<T> results = turned(wanted, given.rows_first);
  const Index step = lanes<double>();
  const Group<double> group(problems.rows, problems.cols, given.rows_first,
                            given.grad_plan != nullptr, iterations, scratch);
  const LogGroup logs(group, iterations, problems.eps);
  double* const sums = scratch + group.numbers;
  HWY_ALIGN double errors[HWY_MAX_BYTES / sizeof(double)] = {};
  const auto count = static_cast<Index>(chosen.size());
  for (Index first = 0; first < count; first += step) {
    const Index width = count - first < step ? count - first : step;
    const auto number = [&](Index lane) { return chosen[static_cast<std::size_t>(first + lane)]; };
    load(problems, group, width, number);
    complete_marginals(group, problems.row_marginal != nullptr, problems.col_marginal != nullptr);
    logs.iterate();
    if (problems.grad_plan != nullptr) logs.differentiate();
    for (Index i = 0; i < group.rows; ++i) {
      for (Index j = 0; j < group.cols; ++j) {
        group.set_score(i, j, logs.weight(i, j, iterations, iterations));
      }
    }
    // Measures the error of the plan as written.
    if constexpr (std::is_same_v<T, float>) {
      for (Index n = 0; n < group.rows * group.cols * step; ++n) {
        group.scores[n] = static_cast<double>(static_cast<float>(group.scores[n]));
      }
    }
    if (results.error != nullptr) store_wide<double>(marginal_error(group, sums), errors);
    for (Index lane = 0; lane < width; ++lane) {
      write(group, results, number(lane), lane, errors[lane]);
      const auto potentials = [&](const double* from, Index lines, double* to) {
        for (Index n = 0; n < lines; ++n) {
          to[n] = from[n * step + lane];
          if (std::isinf(to[n])) to[n] = minus_infinity;
        }
      };
      if (results.row_potential != nullptr) {
        potentials(group.row_of(iterations), group.rows,
                   results.row_potential + number(lane) * group.rows);
      }
      if (results.col_potential != nullptr) {
        potentials(group.col_of(iterations), group.cols,
                   results.col_potential + number(lane) * group.cols);
      }
    }
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                               \
  KERNEL(T, void, small_logarithms, SmallLogarithms,                                          \
         (const SmallProblems<T>& problems, const SmallResults<T>& results, Index iterations, \
          double* scratch, std::span<const Index> chosen),                                    \
         (problems, results, iterations, scratch, chosen))
#include "kernel/dispatch-inl.hpp"
